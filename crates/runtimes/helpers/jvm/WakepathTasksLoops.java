package java.util.concurrent;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * What Netty's event loops call once Wakepath's agent changed them. A request begins where the decoder of HTTP/1 makes one of what was
 * read on a connection that was accepted. What goes on from there is for it: what runs at once; tasks that it gives to loops; what it
 * wants done when a promise is kept; what comes as the answer on a connection on which it wrote last. Its number is told only while
 * what it wrote goes out ({@link WakepathTasksLine}), and not while the loop reads, for others.
 */
public final class WakepathTasksLoops {
    private static final int NIO = 1, EPOLL = 2;
    /** Whose Netty is changed. */
    public static volatile ClassLoader loader;
    /** All of it is changed that must be. */
    public static volatile boolean isReady;
    private static final ClassValue<Integer> KINDS = new ClassValue<>() {
        @Override
        protected Integer computeValue(Class<?> of) {
            for (Class<?> at = of; at != null; at = at.getSuperclass()) {
                switch (at.getName()) {
                    case "io.netty.channel.nio.AbstractNioChannel$AbstractNioUnsafe" -> {
                        return NIO;
                    }
                    case "io.netty.channel.epoll.AbstractEpollStreamChannel$EpollStreamUnsafe" -> {
                        return EPOLL;
                    }
                    default -> { }
                }
            }
            return 0;
        }
    };

    private WakepathTasksLoops() {}

    // ---------------------------------------------------------------- turns of a loop

    /** A loop turns to a connection, by its {@code Unsafe}. */
    public static void reads(Object unsafe) {
        WakepathTasks.Mine mine = loop();
        if (mine == null) return;
        try {
            mine.line = line(mine, unsafe);
            mine.current = mine.line == null ? null : mine.line.reads();
        } catch (Throwable e) {
            mine.current = null;
        }
    }

    /** A loop turns to something else. */
    public static void turns() {
        WakepathTasks.Mine mine = loop();
        if (mine == null) return;
        mine.line = null;
        mine.current = null;
    }

    /** The decoder of HTTP/1 has the first line of a request. */
    public static void begins() {
        WakepathTasks.Mine mine = loop();
        if (mine == null || mine.line == null || !mine.line.isServer) return;
        try {
            mine.current = mine.line.begins();
        } catch (Throwable e) {
            mine.current = null;
        }
    }

    private static WakepathTasks.Mine loop() {
        WakepathTasks.Mine mine = mine();
        if (mine != null) mine.isLoop();
        return mine;
    }

    private static WakepathTasks.Mine mine() {
        return isReady ? WakepathTasks.mine() : null;
    }

    private static WakepathTasksLine line(WakepathTasks.Mine mine, Object unsafe) throws Throwable {
        WakepathTasksLine line = mine.lines.find(unsafe);
        if (line != null) return line;
        int kind = KINDS.get(unsafe.getClass());
        if (kind == 0) return null;
        Object channel = WakepathTasksNetty.CHANNEL.invokeExact(unsafe);
        Object parent = WakepathTasksNetty.PARENT.invokeExact(channel);
        line = new WakepathTasksLine(parent != null);
        Object socket = kind == NIO ? WakepathTasksNetty.Nio.SOCKET.invokeExact(unsafe) : WakepathTasksNetty.Epoll.FD.invokeExact(channel);
        mine.lines.put(socket, line);
        mine.lines.put(unsafe, line);
        return line;
    }

    // ---------------------------------------------------------------- what is handed on

    /** Somebody gives a task to a loop, or wants something done when a promise is kept. */
    public static void gives(Object task) {
        if (!isReady || task == null) return;
        try {
            WakepathTasks.Task current = WakepathTasks.current();
            if (WakepathTasksContext.of(current) != null) WakepathTasksWanted.carry(task, current);
        } catch (Throwable e) {
            // the program goes on as if there were no agent
        }
    }

    /** What somebody gave to a loop is for that one, if it is known who that is. */
    private static WakepathTasks.Task given(Object task) {
        WakepathTasks.Task by = by(task);
        return by == WakepathTasks.Task.NOBODY ? null : by;
    }

    private static WakepathTasks.Task by(Object task) {
        try {
            return WakepathTasksWanted.carried(task);
        } catch (Throwable e) {
            return WakepathTasks.Task.NOBODY;
        }
    }

    /** In the place of {@code task.run()}. */
    public static void run(Runnable task) {
        WakepathTasks.Mine mine = mine();
        if (mine == null) {
            task.run();
            return;
        }
        WakepathTasks.Task before = mine.current;
        WakepathTasksLine line = mine.line;
        mine.line = null;
        mine.enter(given(task));
        try {
            task.run();
        } finally {
            mine.enter(before);
            mine.line = line;
        }
    }

    /** In the place of {@code task.run()}, where what no request gave stays what it is. */
    public static void runs(Runnable task) {
        WakepathTasks.Mine mine = mine();
        WakepathTasks.Task by = mine == null ? null : by(task);
        if (by == null) {
            task.run();
            return;
        }
        WakepathTasks.Task before = mine.current;
        mine.enter(by == WakepathTasks.Task.NOBODY ? null : by);
        try {
            task.run();
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code listener.operationComplete(future)}. */
    public static void complete(Object listener, Object future) throws Throwable {
        WakepathTasks.Mine mine = mine();
        if (mine == null) {
            WakepathTasksNetty.COMPLETE.invokeExact(listener, future);
            return;
        }
        WakepathTasks.Task before = mine.current;
        mine.enter(given(listener));
        try {
            WakepathTasksNetty.COMPLETE.invokeExact(listener, future);
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code subscriber.onNext(value)}, where a pool gives what it has to one who waits. */
    public static void next(Object subscriber, Object value) throws Throwable {
        WakepathTasks.Mine mine = mine();
        if (mine == null) {
            WakepathTasksNetty.Reactor.NEXT.invokeExact(subscriber, value);
            return;
        }
        WakepathTasks.Task before = mine.current;
        mine.enter(given(subscriber));
        try {
            WakepathTasksNetty.Reactor.NEXT.invokeExact(subscriber, value);
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code observer.onStateChange(connection, state)}, where a connection is new for one who waits for it. */
    public static void observes(Object observer, Object connection, Object state) throws Throwable {
        WakepathTasks.Mine mine = mine();
        WakepathTasks.Task by = mine == null ? null : WakepathTasksWanted.carries(observer);
        if (by == null) {
            WakepathTasksNetty.Reactor.STATE.invokeExact(observer, connection, state);
            return;
        }
        WakepathTasks.Task before = mine.current;
        mine.enter(by == WakepathTasks.Task.NOBODY ? null : by);
        try {
            WakepathTasksNetty.Reactor.STATE.invokeExact(observer, connection, state);
        } finally {
            mine.enter(before);
        }
    }

    /** In the place of {@code context.fireChannelRead(message)}, where a request had to wait for the reply to the one before. */
    public static Object fires(Object context, Object message) throws Throwable {
        WakepathTasks.Mine mine = mine();
        if (mine == null) return WakepathTasksNetty.FIRE.invokeExact(context, message);
        WakepathTasks.Task before = mine.current;
        mine.enter(waiting(mine, context));
        try {
            return WakepathTasksNetty.FIRE.invokeExact(context, message);
        } finally {
            mine.enter(before);
        }
    }

    private static WakepathTasksContext waiting(WakepathTasks.Mine mine, Object context) {
        try {
            WakepathTasksLine line = line(mine, WakepathTasksNetty.UNSAFE.invokeExact(context));
            return line != null && line.isServer ? line.reads() : null;
        } catch (Throwable e) {
            return null;
        }
    }

    // ---------------------------------------------------------------- what is written

    /** A message is put behind those that wait to be sent. */
    public static void writes(Object unsafe, Object message) {
        WakepathTasks.Mine mine = mine();
        if (mine == null) return;
        try {
            if (WakepathTasksNetty.isEmpty(message)) return;
            WakepathTasksLine line = line(mine, unsafe);
            if (line == null) return;
            Object buffer = WakepathTasksNetty.BUFFER.invokeExact(unsafe);
            boolean isFirst = buffer == null || (long) WakepathTasksNetty.PENDING.invokeExact(buffer) == 0;
            line.writes(WakepathTasksContext.of(mine.current), isFirst);
        } catch (Throwable e) {
            // what is not known is not told
        }
    }

    /** Bytes go to a socket: who wrote them is told until they are there. */
    private static WakepathTasks.Mine sends(Object socket) {
        WakepathTasks.Mine mine = mine();
        WakepathTasksLine line = mine == null ? null : mine.lines.find(socket);
        if (line == null || line.unsent == null) return null;
        mine.tell(line.unsent);
        return mine;
    }

    private static void sent(WakepathTasks.Mine mine) {
        if (mine != null) mine.tell(null);
    }

    /** In the place of {@code socket.write(bytes)}. */
    public static int write(SocketChannel socket, ByteBuffer bytes) throws IOException {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return socket.write(bytes);
        } finally {
            sent(mine);
        }
    }

    /** In the place of {@code socket.write(bytes, from, count)}. */
    public static long write(SocketChannel socket, ByteBuffer[] bytes, int from, int count) throws IOException {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return socket.write(bytes, from, count);
        } finally {
            sent(mine);
        }
    }

    /** In the place of a method of Netty's own socket, as the others below. */
    public static int write(Object socket, ByteBuffer bytes, int from, int to) throws Throwable {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return (int) WakepathTasksNetty.Epoll.WRITE.invokeExact(socket, bytes, from, to);
        } finally {
            sent(mine);
        }
    }

    public static int send(Object socket, ByteBuffer bytes, int from, int to) throws Throwable {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return (int) WakepathTasksNetty.Epoll.SEND.invokeExact(socket, bytes, from, to);
        } finally {
            sent(mine);
        }
    }

    public static int writeAddress(Object socket, long at, int from, int to) throws Throwable {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return (int) WakepathTasksNetty.Epoll.WRITE_ADDRESS.invokeExact(socket, at, from, to);
        } finally {
            sent(mine);
        }
    }

    public static int sendAddress(Object socket, long at, int from, int to) throws Throwable {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return (int) WakepathTasksNetty.Epoll.SEND_ADDRESS.invokeExact(socket, at, from, to);
        } finally {
            sent(mine);
        }
    }

    public static long writev(Object socket, ByteBuffer[] bytes, int from, int count, long most) throws Throwable {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return (long) WakepathTasksNetty.Epoll.WRITEV.invokeExact(socket, bytes, from, count, most);
        } finally {
            sent(mine);
        }
    }

    public static long writevAddresses(Object socket, long at, int count) throws Throwable {
        WakepathTasks.Mine mine = sends(socket);
        try {
            return (long) WakepathTasksNetty.Epoll.WRITEV_ADDRESSES.invokeExact(socket, at, count);
        } finally {
            sent(mine);
        }
    }
}
