import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A service with a virtual thread for each request (a pool of threads with {@code -Dplatform=1}), which calls the service at port
 * {@code DOWN} for each: {@code Stalls [DOWN]}. Prints its port. GET /gc collects garbage, of which it keeps much alive. GET
 * /work?cause=pinned sleeps in a monitor, ?cause=sleep without one, ?cause=lock waits for a lock that another thread has for 50 ms.
 */
public class Stalls {
    private static final int HELD_MS = 50;
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final Object[] LIVE = new Object[2_000_000];

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < LIVE.length; i++) {
            LIVE[i] = new int[] {i};
        }
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 128);
        // by name, so that older compilers take it
        var executor = System.getProperty("platform") != null
            ? Executors.newFixedThreadPool(8)
            : (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        server.setExecutor(executor);
        server.createContext("/", exchange -> {
            try {
                var uri = exchange.getRequestURI();
                // what asks may name itself behind it
                stall(uri.getPath().equals("/gc") ? "gc" : String.valueOf(uri.getQuery()).replaceAll("^cause=|&.*", ""));
                if (args.length > 0) {
                    ask(Integer.parseInt(args[0]));
                }
                exchange.sendResponseHeaders(200, 2);
                exchange.getResponseBody().write("ok".getBytes(StandardCharsets.UTF_8));
                exchange.close();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        server.start();
        System.out.println(server.getAddress().getPort());
    }

    private static void stall(String cause) throws InterruptedException {
        switch (cause) {
            case "gc" -> System.gc();
            case "pinned" -> {
                // of its own: it waits for nobody else's
                synchronized (new Object()) {
                    Thread.sleep(HELD_MS);
                }
            }
            case "sleep" -> Thread.sleep(HELD_MS);
            case "lock" -> {
                var holder = new Thread(() -> {
                    LOCK.lock();
                    try {
                        Thread.sleep(HELD_MS);
                    } catch (InterruptedException e) {
                        Thread.currentThread().interrupt();
                    } finally {
                        LOCK.unlock();
                    }
                });
                holder.start();
                while (!LOCK.isLocked()) {
                    Thread.onSpinWait();
                }
                LOCK.lock();
                LOCK.unlock();
            }
            default -> { }
        }
    }

    /** One call on a connection of its own. */
    private static void ask(int port) throws java.io.IOException {
        try (var socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.getOutputStream().write("GET /down HTTP/1.1\r\nHost: down\r\n\r\n".getBytes(StandardCharsets.UTF_8));
            InputStream in = socket.getInputStream();
            var reply = new StringBuilder();
            while (!reply.toString().endsWith("\r\n\r\nok")) {
                reply.append((char) in.read());
            }
        }
    }
}
