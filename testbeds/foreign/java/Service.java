import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** What the servers beside this do for a request: two calls to the service behind by a pool of threads, and a line in the log. */
final class Service {
    static final int PORT = Integer.parseInt(System.getenv("PORT"));
    static final int DOWN = Integer.parseInt(System.getenv("DOWN"));
    private static final ExecutorService CALLS = Executors.newFixedThreadPool(16);
    private static final OutputStream LOG = log();

    private Service() {}

    static int status(String path) {
        return path.equals("/miss") ? 404 : path.equals("/fail") ? 500 : 200;
    }

    /** Two calls at once, by the pool. */
    static void both(String rid) {
        var first = CompletableFuture.supplyAsync(() -> ask(rid), CALLS);
        first.thenCombine(CompletableFuture.supplyAsync(() -> ask(rid), CALLS), Integer::sum).join();
    }

    static void log(String rid, int status) throws IOException {
        LOG.write((rid + " " + status + "\n").getBytes(StandardCharsets.UTF_8));
    }

    private static int ask(String rid) {
        try {
            var connection = (HttpURLConnection) URI.create("http://127.0.0.1:" + DOWN + "/down?" + rid).toURL().openConnection();
            return connection.getInputStream().readAllBytes().length;
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static OutputStream log() {
        try {
            return new FileOutputStream(System.getenv("LOG"), true);
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }
}
