package wakepath.agent;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/** What of Netty is changed, and of the pool of connections of Reactor Netty. */
final class Netty {
    /**
     * @param isNeeded without it no request of a loop is told of; else versions differ in which one they have
     */
    record Change(String of, String method, Edit edit, boolean isNeeded) {}

    private static final String IN = "io/netty/", ANY = "Ljava/lang/Object;", BYTES = "Ljava/nio/ByteBuffer;";
    private static final Edit GIVES = Edit.entry("Loops.gives", 1), TURNS = Edit.entry("Loops.turns", 0);
    private static final Edit READS = Edit.entry("Loops.reads", Edit.THIS);
    private static final String SOCKET = "java/nio/channels/SocketChannel";
    private static final String STREAM = IN + "channel/epoll/AbstractEpollStreamChannel", EPOLL = IN + "channel/epoll/AbstractEpollChannel";

    private static final String PROVIDER = "reactor/netty/resources/DefaultPooledConnectionProvider$";
    private static final Edit RUN = Edit.call("java/lang/Runnable", "run", "()V", "Loops.run", "(Ljava/lang/Runnable;)V");
    private static final Edit RUNS = Edit.call("java/lang/Runnable", "run", "()V", "Loops.runs", "(Ljava/lang/Runnable;)V");

    static final Map<String, List<Change>> CHANGES = Arrays.stream(new Change[] {
        needed("util/concurrent/AbstractEventExecutor", "", RUN),
        needed("util/concurrent/SingleThreadEventExecutor", "execute(Ljava/lang/Runnable;)", GIVES),
        other("util/concurrent/SingleThreadEventExecutor", "lazyExecute(", GIVES),
        other("util/concurrent/GlobalEventExecutor", "execute(", GIVES),
        needed("util/concurrent/AbstractScheduledEventExecutor", "schedule(Lio/netty/util/concurrent/ScheduledFutureTask;)", GIVES),
        needed("util/concurrent/DefaultPromise", "addListener(L" + IN + "util/concurrent/GenericFutureListener;)L" + IN + "util/concurrent/Promise;",
            GIVES),
        needed("util/concurrent/DefaultPromise", "notifyListener0(", Edit.call(IN + "util/concurrent/GenericFutureListener",
            "operationComplete", "(Lio/netty/util/concurrent/Future;)V", "Loops.complete", "(" + ANY + ANY + ")V")),
        needed("channel/AbstractChannel$AbstractUnsafe", "write(", Edit.entry("Loops.writes", Edit.BOTH)),
        needed("channel/nio/AbstractNioByteChannel$NioByteUnsafe", "read(", READS),
        needed("channel/nio/AbstractNioMessageChannel$NioMessageUnsafe", "read(", TURNS),
        needed("channel/nio/AbstractNioChannel$AbstractNioUnsafe", "finishConnect(", TURNS),
        needed("channel/socket/nio/NioSocketChannel", "doWrite(",
            Edit.call(SOCKET, "write", "(" + BYTES + ")I", "Loops.write", "(L" + SOCKET + ";" + BYTES + ")I")),
        needed("channel/socket/nio/NioSocketChannel", "doWrite(",
            Edit.call(SOCKET, "write", "([" + BYTES + "II)J", "Loops.write", "(L" + SOCKET + ";[" + BYTES + "II)J")),
        needed("channel/epoll/AbstractEpollStreamChannel$EpollStreamUnsafe", "epollInReady(", READS),
        needed("channel/epoll/AbstractEpollServerChannel$EpollServerSocketUnsafe", "epollInReady(", TURNS),
        needed("channel/epoll/AbstractEpollChannel$AbstractEpollUnsafe", "epollOutReady(", TURNS),
        new Change(STREAM, "writeBytesMultiple(", socket("writevAddresses", "JI", "J"), true),
        new Change(STREAM, "writeBytesMultiple(", socket("writev", "[" + BYTES + "IIJ", "J"), true),
        new Change(EPOLL, "doWriteBytes(", socket("sendAddress", "JII", "I"), false),
        new Change(EPOLL, "doWriteBytes(", socket("writeAddress", "JII", "I"), false),
        new Change(EPOLL, "doWriteBytes(", socket("send", BYTES + "II", "I"), false),
        new Change(EPOLL, "doWriteBytes(", socket("write", BYTES + "II", "I"), false),
        needed("handler/codec/http/HttpRequestDecoder", "createMessage(", Edit.entry("Loops.begins", 0)),
        new Change("reactor/core/scheduler/WorkerTask", "<init>(", GIVES, true),
        new Change("reactor/core/scheduler/WorkerTask", "call(", RUNS, true),
        new Change("reactor/core/scheduler/SchedulerTask", "<init>(", GIVES, true),
        new Change("reactor/core/scheduler/SchedulerTask", "call(", RUNS, true),
        new Change("reactor/netty/http/server/HttpTrafficHandler", "run(", Edit.call(IN + "channel/ChannelHandlerContext",
            "fireChannelRead",
            "(" + ANY + ")Lio/netty/channel/ChannelHandlerContext;", "Loops.fires", "(" + ANY + ANY + ")" + ANY), true),
        new Change(PROVIDER + "DisposableAcquire", "onSubscribe(", Edit.entry("Loops.gives", Edit.THIS), true),
        new Change(PROVIDER + "PooledConnection", "onStateChange(", Edit.call("reactor/netty/ConnectionObserver", "onStateChange",
            "(Lreactor/netty/Connection;Lreactor/netty/ConnectionObserver$State;)V", "Loops.observes", "(" + ANY + ANY + ANY + ")V"), true),
        new Change("reactor/netty/internal/shaded/reactor/pool/AbstractPool$Borrower", "<init>(", GIVES, true),
        new Change("reactor/netty/internal/shaded/reactor/pool/AbstractPool$Borrower", "deliver(",
            Edit.call("reactor/core/CoreSubscriber", "onNext", "(" + ANY + ")V", "Loops.next", "(" + ANY + ANY + ")V"), true),
    }).collect(Collectors.groupingBy(Change::of, Collectors.mapping(Function.identity(), Collectors.toList())));

    private Netty() {}

    private static Change needed(String of, String method, Edit edit) {
        return new Change(IN + of, method, edit, true);
    }

    private static Change other(String of, String method, Edit edit) {
        return new Change(IN + of, method, edit, false);
    }

    private static Edit socket(String method, String takes, String gives) {
        return Edit.call("", method, "(" + takes + ")" + gives, "Loops." + method, "(" + ANY + takes + ")" + gives);
    }
}
