import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import reactor.core.publisher.Mono;
import reactor.core.publisher.MonoSink;
import reactor.core.publisher.Sinks;
import reactor.core.scheduler.Schedulers;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/**
 * A server on Reactor Netty whose requests meet between its event loops. Run: {@code java ReactiveService KIND}.
 *
 * {@code elastic}: calls are begun, and go on, on threads of a scheduler; {@code timer}: behind a delay; {@code shared}: requests that come
 * at once share one first call; {@code limited}: a limit on calls keeps what waits in a queue, and lets who is done begin the next;
 * {@code counted}: that, and the answers of a request are counted, so that the last one replies; {@code seldom}: that,
 * and few wait; {@code batched}: what several
 * requests ask is sent by the one that came last.
 */
public class ReactiveService {
    private static final HttpClient CLIENT = HttpClient.create(
        ConnectionProvider.builder("down").maxConnections(16).pendingAcquireMaxCount(-1).build()).baseUrl("http://127.0.0.1:" + Service.DOWN);
    private static final ConcurrentHashMap<String, Mono<String>> SHARED = new ConcurrentHashMap<>();
    private static final ArrayDeque<Runnable> WAITING = new ArrayDeque<>();
    private static int free;

    public static void main(String[] args) {
        var kind = args[0];
        free = kind.equals("seldom") ? 18 : 4;
        HttpServer.create().host("127.0.0.1").port(Service.PORT).handle((request, reply) -> {
            var rid = request.uri().split("\\?", 2)[1];
            int status = Service.status("/" + request.path());
            return reply.status(status).sendString(answer(kind, rid).map(all -> {
                try {
                    Service.log(rid, status);
                } catch (java.io.IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
                return rid;
            }));
        }).bindNow().onDispose().block();
    }

    private static Mono<?> answer(String kind, String rid) {
        var call = ask(rid);
        return switch (kind) {
            case "elastic" -> {
                var there = call.subscribeOn(Schedulers.boundedElastic()).publishOn(Schedulers.parallel());
                yield Mono.zip(there, call).publishOn(Schedulers.boundedElastic()).flatMap(both -> call);
            }
            case "timer" -> call.delayElement(Duration.ofMillis(2)).flatMap(first -> call);
            case "shared" -> SHARED.computeIfAbsent("one", key -> call.doFinally(end -> SHARED.remove("one")).cache()).flatMap(first -> call);
            case "limited" -> Mono.zip(limited(call), limited(call));
            case "counted", "seldom" -> counted(rid);
            case "batched" -> batched(rid);
            default -> Mono.zip(call, call);
        };
    }

    private static Mono<String> ask(String rid) {
        return CLIENT.get().uri("/down?" + rid).responseContent().aggregate().asString();
    }

    private static Mono<String> limited(Mono<String> call) {
        return Mono.create(sink -> enter(() -> call.subscribe(answer -> done(() -> sink.success(answer)), sink::error)));
    }

    private static Mono<Integer> counted(String rid) {
        var open = new AtomicInteger(3);
        var all = Sinks.<Integer>one();
        Runnable one = () -> {
            if (open.decrementAndGet() == 0) all.tryEmitValue(0);
        };
        return all.asMono().doOnSubscribe(begun -> {
            for (int i = 0; i < 2; i++) enter(() -> ask(rid).subscribe(answer -> done(one)));
            ask(rid).subscribe(answer -> one.run());
        });
    }

    private static void enter(Runnable begin) {
        synchronized (WAITING) {
            if (free == 0) {
                WAITING.add(begin);
                return;
            }
            free--;
        }
        begin.run();
    }

    /** The next one begins before the outcome is handed on. */
    private static void done(Runnable then) {
        Runnable next;
        synchronized (WAITING) {
            next = WAITING.poll();
            if (next == null) free++;
        }
        if (next != null) next.run();
        then.run();
    }

    private static final ArrayDeque<Runnable> BATCH = new ArrayDeque<>();

    private static Mono<String> batched(String rid) {
        return Mono.create((MonoSink<String> sink) -> {
            var all = new ArrayDeque<Runnable>();
            synchronized (BATCH) {
                BATCH.add(() -> ask(rid).subscribe(sink::success));
                if (BATCH.size() < 3) {
                    Mono.delay(Duration.ofMillis(3)).subscribe(late -> flush());
                    return;
                }
                all.addAll(BATCH);
                BATCH.clear();
            }
            all.forEach(Runnable::run);
        }).flatMap(first -> ask(rid));
    }

    private static void flush() {
        var all = new ArrayDeque<Runnable>();
        synchronized (BATCH) {
            all.addAll(BATCH);
            BATCH.clear();
        }
        all.forEach(Runnable::run);
    }
}
