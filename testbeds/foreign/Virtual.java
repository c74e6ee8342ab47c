import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.util.ArrayList;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The JDK's own web server with a virtual thread for each request; settings come by environment. Run: {@code java -cp ...
 * Virtual KIND}. {@code plain}: HttpURLConnection calls the service behind; {@code client}: java.net.http's client does;
 * {@code children}: virtual threads that the request's makes do, two at once; {@code pinned}: within {@code synchronized}.
 */
public class Virtual {
    private static final int CONNECTIONS = 5;
    private final BlockingQueue<Cache> caches = new ArrayBlockingQueue<>(CONNECTIONS);
    private final BlockingQueue<Connection> databases = new ArrayBlockingQueue<>(CONNECTIONS);
    private final String kind;
    private final String down = "http://127.0.0.1:" + System.getenv("DOWN") + "/down?";
    private final HttpClient client = HttpClient.newHttpClient();
    private final ExecutorService tasks;
    private final OutputStream log;

    private record Cache(Socket socket, InputStream in) {}

    private Virtual(String kind) throws Exception {
        this.kind = kind;
        // by name, so that older compilers take it
        tasks = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        log = new FileOutputStream(System.getenv("LOG"), true);
        for (int i = 0; i < CONNECTIONS; i++) {
            var cache = new Socket(InetAddress.getLoopbackAddress(), Integer.parseInt(System.getenv("REDIS")));
            cache.setTcpNoDelay(true);
            caches.add(new Cache(cache, new BufferedInputStream(cache.getInputStream())));
            databases.add(DriverManager.getConnection(
                "jdbc:postgresql://127.0.0.1:" + System.getenv("PG") + "/postgres?user=postgres"));
        }
    }

    public static void main(String[] args) throws Exception {
        var service = new Virtual(args[0]);
        var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(System.getenv("PORT")));
        var server = HttpServer.create(address, 128);
        server.setExecutor(service.tasks);
        server.createContext("/", service::serve);
        server.start();
    }

    private void serve(HttpExchange exchange) throws IOException {
        var rid = exchange.getRequestURI().getQuery();
        int status = switch (exchange.getRequestURI().getPath()) {
            case "/miss" -> 404;
            case "/fail" -> 500;
            default -> 200;
        };
        try {
            count(rid.replace('=', ':'));
            if (status == 200) {
                select(rid);
                Thread.sleep(2);
                ask(rid);
            }
        } catch (Exception e) {
            e.printStackTrace();
            throw new IOException(e);
        }
        log.write(bytes(rid + " " + status + "\n"));
        exchange.sendResponseHeaders(status, rid.length());
        exchange.getResponseBody().write(bytes(rid));
        exchange.close();
    }

    private void count(String key) throws Exception {
        var cache = caches.take();
        cache.socket.getOutputStream().write(bytes("INCR " + key + "\r\n"));
        while (cache.in.read() != '\n') { }
        caches.put(cache);
    }

    private void select(String rid) throws Exception {
        var database = databases.take();
        try (var statement = database.createStatement()) {
            statement.execute("/* " + rid + " */ SELECT pg_sleep(0.001)");
        }
        databases.put(database);
    }

    private void ask(String rid) throws Exception {
        var uri = URI.create(down + rid);
        Callable<Void> call = () -> {
            var connection = (HttpURLConnection) uri.toURL().openConnection();
            connection.getInputStream().readAllBytes();
            return null;
        };
        switch (kind) {
            case "client" -> client.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
            case "children" -> {
                for (var one : tasks.invokeAll(new ArrayList<>(java.util.List.of(call, call)))) {
                    one.get();
                }
            }
            case "pinned" -> {
                synchronized (rid.intern()) {
                    call.call();
                }
            }
            default -> {
                call.call();
                call.call();
            }
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
