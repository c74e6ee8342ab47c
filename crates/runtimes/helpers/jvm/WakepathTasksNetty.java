package java.util.concurrent;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;

/** What is called of Netty and Reactor, which this package cannot name. All of it is public there. */
final class WakepathTasksNetty {
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.publicLookup();
    /** Of a connection's {@code Unsafe}: the channel; its buffer of what waits to be sent; and what that has. */
    static final MethodHandle CHANNEL, BUFFER, PENDING;
    /** The channel that accepted one. */
    static final MethodHandle PARENT;
    /** Of a handler's context: the {@code Unsafe} of its channel; and what hands on a message. */
    static final MethodHandle UNSAFE, FIRE;
    static final MethodHandle READABLE, COMPLETE;
    private static final Class<?> BYTES;

    /** What is not there in each program, apart. Netty's own sockets; versions differ in what of them a channel calls. */
    static final class Epoll {
        static final MethodHandle FD, WRITE, SEND, WRITE_ADDRESS, SEND_ADDRESS, WRITEV, WRITEV_ADDRESSES;

        static {
            Class<?> fd = named("io.netty.channel.unix.FileDescriptor"), socket = named("io.netty.channel.unix.Socket");
            FD = find(named("io.netty.channel.unix.UnixChannel"), "fd", fd).asType(MethodType.methodType(Object.class, Object.class));
            WRITE = of(socket, "write", int.class, ByteBuffer.class, int.class, int.class);
            SEND = of(socket, "send", int.class, ByteBuffer.class, int.class, int.class);
            WRITE_ADDRESS = of(socket, "writeAddress", int.class, long.class, int.class, int.class);
            SEND_ADDRESS = of(socket, "sendAddress", int.class, long.class, int.class, int.class);
            WRITEV = of(socket, "writev", long.class, ByteBuffer[].class, int.class, int.class, long.class);
            WRITEV_ADDRESSES = of(socket, "writevAddresses", long.class, long.class, int.class);
        }

        private Epoll() {}

        private static MethodHandle of(Class<?> socket, String name, Class<?> gives, Class<?>... takes) {
            return find(socket, name, gives, takes).asType(MethodType.methodType(gives, takes).insertParameterTypes(0, Object.class));
        }
    }

    static final class Nio {
        static final MethodHandle SOCKET;

        static {
            Class<?> unsafe = named("io.netty.channel.nio.AbstractNioChannel$NioUnsafe");
            SOCKET = find(unsafe, "ch", java.nio.channels.SelectableChannel.class)
                .asType(MethodType.methodType(Object.class, Object.class));
        }

        private Nio() {}
    }

    static final class Reactor {
        static final MethodHandle NEXT = find(named("org.reactivestreams.Subscriber"), "onNext", void.class, Object.class)
            .asType(MethodType.methodType(void.class, Object.class, Object.class));

        static final MethodHandle STATE = find(named("reactor.netty.ConnectionObserver"), "onStateChange", void.class,
            named("reactor.netty.Connection"), named("reactor.netty.ConnectionObserver$State"))
            .asType(MethodType.methodType(void.class, Object.class, Object.class, Object.class));

        private Reactor() {}
    }

    static {
        Class<?> unsafe = named("io.netty.channel.Channel$Unsafe"), promise = named("io.netty.channel.ChannelPromise");
        Class<?> channel = named("io.netty.channel.Channel"), buffer = named("io.netty.channel.ChannelOutboundBuffer");
        Class<?> listener = named("io.netty.util.concurrent.GenericFutureListener"), future = named("io.netty.util.concurrent.Future");
        BYTES = named("io.netty.buffer.ByteBuf");
        MethodType of = MethodType.methodType(Object.class, Object.class);
        MethodHandle channelOf = find(promise, "channel", channel);
        CHANNEL = MethodHandles.filterReturnValue(find(unsafe, "voidPromise", promise), channelOf).asType(of);
        BUFFER = find(unsafe, "outboundBuffer", buffer).asType(of);
        PENDING = find(buffer, "totalPendingWriteBytes", long.class).asType(MethodType.methodType(long.class, Object.class));
        PARENT = find(channel, "parent", channel).asType(of);
        Class<?> context = named("io.netty.channel.ChannelHandlerContext");
        UNSAFE = MethodHandles.filterReturnValue(find(context, "channel", channel), find(channel, "unsafe", unsafe)).asType(of);
        FIRE = find(context, "fireChannelRead", context, Object.class).asType(of.appendParameterTypes(Object.class));
        READABLE = find(BYTES, "readableBytes", int.class).asType(MethodType.methodType(int.class, Object.class));
        COMPLETE = find(listener, "operationComplete", void.class, future)
            .asType(MethodType.methodType(void.class, Object.class, Object.class));
    }

    private WakepathTasksNetty() {}

    private static Class<?> named(String name) {
        try {
            return Class.forName(name, false, WakepathTasksLoops.loader);
        } catch (ClassNotFoundException e) {
            throw new IllegalStateException(e);
        }
    }

    private static MethodHandle find(Class<?> of, String name, Class<?> gives, Class<?>... takes) {
        try {
            return LOOKUP.findVirtual(of, name, MethodType.methodType(gives, takes));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Whether a message is bytes, of which there are none. */
    static boolean isEmpty(Object message) throws Throwable {
        return BYTES.isInstance(message) && (int) READABLE.invokeExact(message) == 0;
    }
}
