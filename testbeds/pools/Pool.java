import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * A task a connection, calls by tasks of the same executor, and a pool of connections to the service behind.
 *
 * <p>Run: {@code java Pool.java (virtual|threads) PORT UPSTREAM_PORT CONNECTIONS}. {@code GET /in-turn/N?rid=R} makes N
 * calls one after the other, {@code GET /at-once/N?rid=R} makes them together; each is {@code GET /up?rid=R}. The ids are
 * the ground truth, for the scorer only. Listens on loopback; PORT 0 takes a free one. Virtual threads need Java 21.
 */
public class Pool {
    private final ExecutorService tasks;
    private final BlockingQueue<Up> idle;

    private record Up(Socket socket, InputStream in) {}

    private Pool(ExecutorService tasks, int upstream, int connections) throws IOException {
        this.tasks = tasks;
        idle = new ArrayBlockingQueue<>(connections);
        for (int i = 0; i < connections; i++) {
            var up = new Socket(InetAddress.getLoopbackAddress(), upstream);
            up.setTcpNoDelay(true);
            idle.add(new Up(up, new BufferedInputStream(up.getInputStream())));
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 4) {
            System.err.println("usage: java Pool.java (virtual|threads) PORT UPSTREAM_PORT CONNECTIONS");
            System.exit(2);
        }
        ExecutorService tasks = Executors.newCachedThreadPool();
        if (args[0].equals("virtual")) {
            // by name, so that older compilers take it
            tasks = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        }
        var pool = new Pool(tasks, Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        try (var listener = new ServerSocket(Integer.parseInt(args[1]), 128, InetAddress.getLoopbackAddress())) {
            System.out.println("ready " + listener.getLocalPort());
            while (true) {
                var connection = listener.accept();
                tasks.submit(() -> pool.serve(connection));
            }
        }
    }

    private Void serve(Socket connection) throws Exception {
        try (connection) {
            connection.setTcpNoDelay(true);
            var in = new BufferedInputStream(connection.getInputStream());
            for (var head = head(in); !head.isEmpty(); head = head(in)) {
                var target = head.split(" ", 3)[1];
                var path = target.substring(1, target.indexOf('?')).split("/");
                var query = target.substring(target.indexOf('?'));
                Callable<Void> call = () -> call(query);
                var together = new ArrayList<Future<Void>>();
                for (int i = 0; i < Integer.parseInt(path[1]); i++) {
                    if (path[0].equals("at-once")) {
                        together.add(tasks.submit(call));
                    } else {
                        call.call();
                    }
                }
                for (var one : together) {
                    one.get();
                }
                connection.getOutputStream().write(bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n"));
            }
        }
        return null;
    }

    private Void call(String query) throws Exception {
        var up = idle.take();
        try {
            up.socket.getOutputStream().write(bytes("GET /up" + query + " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            if (!head(up.in).contains(" 200 ") || up.in.readNBytes(3).length != 3) {
                throw new IOException("the service behind did not answer with 200");
            }
        } finally {
            idle.put(up);
        }
        return null;
    }

    /** A message's head; empty at the end of the stream. */
    private static String head(InputStream in) throws IOException {
        var text = new StringBuilder();
        while (text.indexOf("\r\n\r\n") < 0) {
            int one = in.read();
            if (one < 0) {
                return "";
            }
            text.append((char) one);
        }
        return text.toString();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }
}
