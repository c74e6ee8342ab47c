import reactor.core.publisher.Mono;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/** A server on Reactor Netty, on which Spring's WebFlux is built: two calls at once by its client, on connections of its pool. */
public class ReactorService {
    private static final int CONNECTIONS = 8;

    public static void main(String[] args) {
        // who waits for a connection does, however many there are
        var pool = ConnectionProvider.builder("down").maxConnections(CONNECTIONS).pendingAcquireMaxCount(-1).build();
        var client = HttpClient.create(pool).baseUrl("http://127.0.0.1:" + Service.DOWN);
        var server = HttpServer.create().host("127.0.0.1").port(Service.PORT).handle((request, reply) -> {
            var parts = request.uri().split("\\?", 2);
            Mono<String> call = client.get().uri("/down?" + parts[1]).responseContent().aggregate().asString();
            int status = Service.status("/" + request.path());
            var both = Mono.zip(call, call).map(answers -> {
                try {
                    Service.log(parts[1], status);
                } catch (java.io.IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
                return parts[1];
            });
            return reply.status(status).sendString(both);
        });
        server.bindNow().onDispose().block();
    }
}
