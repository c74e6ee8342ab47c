import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A service with a virtual thread for each request, which calls another one: {@code Service down}, or {@code Service virtual
 * DOWN}. Prints its port. GET /x/NAME leads to GET /down/NAME, on connections that all requests share. {@code Service pools DOWN}
 * serves by a pool of platform threads, and has another one call.
 */
public class Service {
    private static final int POOL = 4;

    private record Down(Socket socket, InputStream in) {}

    public static void main(String[] args) throws Exception {
        BlockingQueue<Down> idle = new ArrayBlockingQueue<>(POOL);
        for (int i = 0; i < POOL && !args[0].equals("down"); i++) {
            var socket = new Socket(InetAddress.getLoopbackAddress(), Integer.parseInt(args[1]));
            socket.setTcpNoDelay(true);
            idle.add(new Down(socket, new BufferedInputStream(socket.getInputStream())));
        }
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 128);
        var calls = args[0].equals("pools") ? Executors.newFixedThreadPool(POOL) : null;
        server.setExecutor(calls == null ? virtualThreads() : Executors.newFixedThreadPool(16));
        server.createContext("/", exchange -> {
            try {
                var path = exchange.getRequestURI().getPath();
                var name = path.substring(path.lastIndexOf('/') + 1);
                Thread.sleep(1);
                if (calls != null) {
                    var asked = name;
                    name = CompletableFuture.supplyAsync(() -> ask(idle, asked), calls).join();
                } else if (args[0].equals("virtual")) {
                    name = ask(idle, name);
                }
                var reply = name.getBytes(StandardCharsets.UTF_8);
                exchange.sendResponseHeaders(200, reply.length);
                exchange.getResponseBody().write(reply);
                exchange.close();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        server.start();
        System.out.println(server.getAddress().getPort());
    }

    /** By name, so that older compilers take it; a version without them has a pool. */
    private static ExecutorService virtualThreads() throws ReflectiveOperationException {
        try {
            return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (NoSuchMethodException e) {
            return Executors.newCachedThreadPool();
        }
    }

    private static String ask(BlockingQueue<Down> idle, String name) {
        try {
            return asked(idle, name);
        } catch (java.io.IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The reply to GET /down/NAME. */
    private static String asked(BlockingQueue<Down> idle, String name) throws java.io.IOException, InterruptedException {
        var down = idle.take();
        var request = "GET /down/" + name + " HTTP/1.1\r\nHost: down\r\n\r\n";
        down.socket.getOutputStream().write(request.getBytes(StandardCharsets.UTF_8));
        var head = new StringBuilder();
        while (head.indexOf("\r\n\r\n") < 0) {
            head.append((char) down.in.read());
        }
        var reply = new String(down.in.readNBytes(name.length()), StandardCharsets.UTF_8);
        idle.put(down);
        return reply;
    }
}
