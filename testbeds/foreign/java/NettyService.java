import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.pool.AbstractChannelPoolHandler;
import io.netty.channel.pool.FixedChannelPool;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpRequest;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.util.AttributeKey;
import io.netty.util.concurrent.Future;
import java.nio.charset.StandardCharsets;

/** A server on Netty's event loops, which makes two calls at once on connections of a pool that all its requests share. */
public class NettyService extends SimpleChannelInboundHandler<FullHttpRequest> {
    private static final int CONNECTIONS = 8;
    private static final int BODY_MAX = 1 << 16;
    private static final AttributeKey<Runnable> ANSWERED = AttributeKey.valueOf("answered");
    private static final MultiThreadIoEventLoopGroup LOOPS = new MultiThreadIoEventLoopGroup(2, NioIoHandler.newFactory());
    private static final FixedChannelPool DOWN = new FixedChannelPool(
        new Bootstrap().group(LOOPS).channel(NioSocketChannel.class).remoteAddress("127.0.0.1", Service.DOWN),
        new AbstractChannelPoolHandler() {
            @Override
            public void channelCreated(Channel channel) {
                channel.pipeline().addLast(new HttpClientCodec(), new HttpObjectAggregator(BODY_MAX), new Answers());
            }
        }, CONNECTIONS);

    public static void main(String[] args) throws Exception {
        var server = new ServerBootstrap().group(LOOPS).channel(NioServerSocketChannel.class);
        server.childHandler(new ChannelInitializer<>() {
            @Override
            protected void initChannel(Channel channel) {
                ChannelPipeline line = channel.pipeline();
                line.addLast(new HttpServerCodec(), new HttpObjectAggregator(BODY_MAX), new NettyService());
            }
        });
        server.bind("127.0.0.1", Service.PORT).sync().channel().closeFuture().sync();
    }

    @Override
    protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
        var parts = request.uri().split("\\?", 2);
        int[] open = {2};
        Runnable answered = () -> context.executor().execute(() -> {
            if (--open[0] == 0) reply(context, parts[1], Service.status(parts[0]));
        });
        for (int i = 0; i < 2; i++) ask(parts[1], answered);
    }

    private static void ask(String rid, Runnable answered) {
        DOWN.acquire().addListener((Future<Channel> got) -> {
            Channel channel = got.getNow();
            channel.attr(ANSWERED).set(answered);
            var request = new DefaultFullHttpRequest(HttpVersion.HTTP_1_1, HttpMethod.GET, "/down?" + rid);
            request.headers().set("Host", "down");
            channel.writeAndFlush(request);
        });
    }

    private static void reply(ChannelHandlerContext context, String rid, int status) {
        try {
            Service.log(rid, status);
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        var body = Unpooled.copiedBuffer(rid, StandardCharsets.UTF_8);
        var reply = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.valueOf(status), body);
        reply.headers().setInt("Content-Length", rid.length());
        context.writeAndFlush(reply);
    }

    /** What comes on a connection of the pool. */
    @ChannelHandler.Sharable
    private static final class Answers extends SimpleChannelInboundHandler<FullHttpResponse> {
        @Override
        protected void channelRead0(ChannelHandlerContext context, FullHttpResponse answer) {
            Runnable answered = context.channel().attr(ANSWERED).getAndSet(null);
            DOWN.release(context.channel());
            answered.run();
        }
    }
}
