import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A service with a virtual thread for each request, which calls another one: {@code Service down}, or {@code Service virtual
 * DOWN}. Prints its port. GET /x/NAME leads to GET /down/NAME, on connections that all requests share.
 */
public class Service {
    private static final int POOL = 4;

    private record Down(Socket socket, InputStream in) {}

    public static void main(String[] args) throws Exception {
        BlockingQueue<Down> idle = new ArrayBlockingQueue<>(POOL);
        for (int i = 0; i < POOL && args[0].equals("virtual"); i++) {
            var socket = new Socket(InetAddress.getLoopbackAddress(), Integer.parseInt(args[1]));
            socket.setTcpNoDelay(true);
            idle.add(new Down(socket, new BufferedInputStream(socket.getInputStream())));
        }
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 128);
        // by name, so that older compilers take it
        var executor = Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        server.setExecutor((ExecutorService) executor);
        server.createContext("/", exchange -> {
            try {
                var path = exchange.getRequestURI().getPath();
                var name = path.substring(path.lastIndexOf('/') + 1);
                Thread.sleep(1);
                if (args[0].equals("virtual")) {
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

    /** The reply to GET /down/NAME. */
    private static String ask(BlockingQueue<Down> idle, String name) throws java.io.IOException, InterruptedException {
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
