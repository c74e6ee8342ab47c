import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * The JDK's own web server on a pool of platform threads, which has two calls to the service behind done by another pool; settings
 * come by environment. Run: {@code java Pools KIND}.
 *
 * {@code submit}: by {@code Future}s; {@code future}: by {@code CompletableFuture}s that are joined; {@code async}: the reply is sent
 * by who completes them; {@code fork-join}: all in pools of {@code ForkJoinPool}; {@code later}: by a scheduled pool, a millisecond
 * later; {@code serial}: by an executor that does one task behind the other, each set going by who did the one before, so that a
 * task is submitted by another request's; {@code drain}: by one that works off its queue in one task; {@code queue}: what that works
 * off is no future; {@code restart}: and a future is made of each time that somebody works it off, before the reply's work is done;
 * {@code limited}: a limit on calls, that keeps what waits in a queue, and lets who is done begin the next; {@code shared}: requests that come at once share one first call, and each continues from its future.
 */
public class Pools {
    private final String kind;
    private final String down = "http://127.0.0.1:" + System.getenv("DOWN") + "/down?";
    private final ExecutorService serves;
    private final ExecutorService calls;
    private final ScheduledExecutorService later = Executors.newScheduledThreadPool(8);
    private final Executor serial = new Serial();
    private final Executor drain = new Drain(false);
    private final Executor restart = new Drain(true);
    private final Limit limit = new Limit();
    private final ConcurrentHashMap<String, CompletableFuture<Integer>> shared = new ConcurrentHashMap<>();
    private final OutputStream log;

    private Pools(String kind) throws IOException {
        this.kind = kind;
        boolean forks = kind.equals("fork-join");
        serves = forks ? new ForkJoinPool(64) : Executors.newFixedThreadPool(64);
        calls = forks ? new ForkJoinPool(16) : Executors.newFixedThreadPool(16);
        log = new FileOutputStream(System.getenv("LOG"), true);
    }

    public static void main(String[] args) throws Exception {
        var service = new Pools(args[0]);
        var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(System.getenv("PORT")));
        var server = HttpServer.create(address, 128);
        server.setExecutor(service.serves);
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
        if (status != 200) {
            ask(rid);
            reply(exchange, rid, status);
            return;
        }
        try {
            switch (kind) {
                case "submit" -> {
                    Callable<Integer> call = () -> ask(rid);
                    for (var one : calls.invokeAll(List.of(call, call))) one.get();
                }
                case "later" -> {
                    var first = later.schedule(() -> ask(rid), 1, TimeUnit.MILLISECONDS);
                    var second = later.schedule(() -> ask(rid), 1, TimeUnit.MILLISECONDS);
                    first.get();
                    second.get();
                }
                case "async" -> {
                    both(rid, calls).thenAccept(all -> {
                        try {
                            reply(exchange, rid, status);
                        } catch (IOException e) {
                            e.printStackTrace();
                        }
                    });
                    return;
                }
                case "shared" -> {
                    var first = shared.computeIfAbsent("one", key -> CompletableFuture.supplyAsync(() -> pause(rid), calls));
                    first.thenApplyAsync(n -> ask(rid), calls).thenApply(n -> ask(rid)).join();
                    shared.remove("one", first);
                }
                case "serial" -> both(rid, serial).join();
                case "drain" -> both(rid, drain).join();
                case "queue" -> queued(rid, drain);
                case "limited" -> {
                    var first = limit.of(() -> CompletableFuture.supplyAsync(() -> ask(rid), calls));
                    first.thenCombine(limit.of(() -> CompletableFuture.supplyAsync(() -> ask(rid), calls)), Integer::sum).join();
                    Thread.sleep(20);
                }
                case "restart" -> {
                    queued(rid, restart);
                    Thread.sleep(20);
                }
                default -> both(rid, calls).join();
            }
        } catch (Exception e) {
            e.printStackTrace();
            throw new IOException(e);
        }
        reply(exchange, rid, status);
    }

    private CompletableFuture<Integer> both(String rid, Executor by) {
        var first = CompletableFuture.supplyAsync(() -> ask(rid), by);
        return first.thenCombine(CompletableFuture.supplyAsync(() -> ask(rid), by), Integer::sum);
    }

    private void queued(String rid, Executor by) throws InterruptedException {
        var done = new CountDownLatch(2);
        for (int i = 0; i < 2; i++) {
            by.execute(() -> {
                ask(rid);
                done.countDown();
            });
        }
        done.await();
    }

    private void reply(HttpExchange exchange, String rid, int status) throws IOException {
        log.write(bytes(rid + " " + status + "\n"));
        exchange.sendResponseHeaders(status, rid.length());
        exchange.getResponseBody().write(bytes(rid));
        exchange.close();
    }

    private static int pause(String rid) {
        try {
            Thread.sleep(2);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return rid.length();
    }

    private int ask(String rid) {
        try {
            var connection = (HttpURLConnection) URI.create(down + rid).toURL().openConnection();
            return connection.getInputStream().readAllBytes().length;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** As the documentation of {@code Executor} has it. */
    private final class Serial implements Executor {
        private final ArrayDeque<Runnable> tasks = new ArrayDeque<>();
        private Runnable active;

        @Override
        public synchronized void execute(Runnable task) {
            tasks.add(() -> {
                try {
                    task.run();
                } finally {
                    next();
                }
            });
            if (active == null) next();
        }

        private synchronized void next() {
            active = tasks.poll();
            if (active != null) calls.execute(active);
        }
    }

    /** Works off what there is in a task of its own. */
    private final class Drain implements Executor {
        private final List<Runnable> tasks = new ArrayList<>();
        private final boolean makesFutures;
        private boolean isActive;

        Drain(boolean makesFutures) {
            this.makesFutures = makesFutures;
        }

        @Override
        public synchronized void execute(Runnable task) {
            tasks.add(task);
            if (isActive) return;
            isActive = true;
            if (makesFutures) {
                CompletableFuture.runAsync(this::work, calls);
            } else {
                calls.execute(this::work);
            }
        }

        private void work() {
            for (Runnable task = take(); task != null; task = take()) task.run();
        }

        private synchronized Runnable take() {
            isActive = !tasks.isEmpty();
            return isActive ? tasks.remove(0) : null;
        }
    }

    /** Two calls at once, for all. */
    private static final class Limit {
        private final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
        private int free = 2;

        CompletableFuture<Integer> of(Supplier<CompletableFuture<Integer>> call) {
            var result = new CompletableFuture<Integer>();
            Runnable begin = () -> call.get().whenComplete((n, e) -> {
                next();
                result.complete(n);
            });
            synchronized (this) {
                if (free == 0) {
                    waiting.add(begin);
                    return result;
                }
                free--;
            }
            begin.run();
            return result;
        }

        private void next() {
            Runnable begin;
            synchronized (this) {
                begin = waiting.poll();
                if (begin == null) {
                    free++;
                    return;
                }
            }
            begin.run();
        }
    }
}
