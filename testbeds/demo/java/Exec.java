import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A request that changes threads twice: the server's dispatcher hands it to one of 16 handlers, the
 * handler submits the downstream call to one of 8 callers and waits for it by Future.get.
 *
 * <p>Run: {@code java Exec.java PORT DOWNSTREAM_PORT}. {@code GET /x?rid=N} leads to
 * {@code GET /down?rid=N} on a new connection to the downstream port; the reply is its body.
 * The ids are the ground truth, for the scorer only. Listens on loopback; PORT 0 takes a free one.
 */
public class Exec {
    private static final int HANDLERS = 16;
    private static final int CALLERS = 8;
    private static final int DOWNSTREAM_TIMEOUT_MS = 10_000;

    private final int downstreamPort;
    private final ExecutorService callers = Executors.newFixedThreadPool(CALLERS, named("caller"));

    private Exec(int downstreamPort) {
        this.downstreamPort = downstreamPort;
    }

    public static void main(String[] args) throws IOException {
        if (args.length != 2) {
            System.err.println("usage: java Exec.java PORT DOWNSTREAM_PORT");
            System.exit(2);
        }
        // Head and body leave in two writes: without this the second waits 40 ms for a delayed ACK.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        var loopback = InetAddress.getLoopbackAddress();
        var server = HttpServer.create(new InetSocketAddress(loopback, Integer.parseInt(args[0])), 128);
        server.setExecutor(Executors.newFixedThreadPool(HANDLERS, named("handler")));
        server.createContext("/", new Exec(Integer.parseInt(args[1]))::handle);
        server.start();
        System.out.println("ready " + server.getAddress().getPort());
    }

    private void handle(HttpExchange exchange) throws IOException {
        var query = exchange.getRequestURI().getRawQuery();
        int status = 200;
        byte[] body;
        Future<byte[]> pending = callers.submit(() -> callDownstream(query));
        try {
            body = pending.get();
        } catch (ExecutionException | InterruptedException failure) {
            status = 502;
            body = (failure + "\n").getBytes(StandardCharsets.UTF_8);
        }
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(body);
        }
    }

    /** HTTP/1.0 on a connection of its own: the reply ends where the connection does. */
    private byte[] callDownstream(String query) throws IOException {
        var path = query == null ? "/down" : "/down?" + query;
        try (var socket = new Socket(InetAddress.getLoopbackAddress(), downstreamPort)) {
            socket.setSoTimeout(DOWNSTREAM_TIMEOUT_MS);
            socket.getOutputStream().write(
                    ("GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n").getBytes(StandardCharsets.ISO_8859_1));
            return bodyOf(socket.getInputStream());
        }
    }

    private static byte[] bodyOf(InputStream in) throws IOException {
        var reply = new String(in.readAllBytes(), StandardCharsets.ISO_8859_1);
        int end = reply.indexOf("\r\n\r\n");
        if (end < 0 || !reply.startsWith("HTTP/1.") || !reply.substring(8).startsWith(" 200")) {
            throw new IOException("downstream did not answer with 200");
        }
        return reply.substring(end + 4).getBytes(StandardCharsets.ISO_8859_1);
    }

    private static ThreadFactory named(String name) {
        var count = new AtomicInteger();
        return task -> new Thread(task, name + "-" + count.incrementAndGet());
    }
}
