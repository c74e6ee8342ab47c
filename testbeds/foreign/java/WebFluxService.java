import org.springframework.http.MediaType;
import org.springframework.http.client.reactive.ReactorClientHttpConnector;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import reactor.core.publisher.Mono;
import reactor.netty.http.client.HttpClient;
import reactor.netty.http.server.HttpServer;
import reactor.netty.resources.ConnectionProvider;

/** Spring's WebFlux, which makes two calls at once by its {@code WebClient}, and a third with what comes of them. */
public class WebFluxService {
    private static final int CONNECTIONS = 8;

    public static void main(String[] args) {
        var pool = ConnectionProvider.builder("down").maxConnections(CONNECTIONS).pendingAcquireMaxCount(-1).build();
        var client = WebClient.builder().baseUrl("http://127.0.0.1:" + Service.DOWN)
            .clientConnector(new ReactorClientHttpConnector(HttpClient.create(pool))).build();
        var routes = RouterFunctions.route().GET("/{what}", request -> {
            var rid = request.uri().getQuery();
            int status = Service.status(request.path());
            Mono<String> call = client.get().uri("/down?" + rid).retrieve().bodyToMono(String.class);
            return Mono.zip(call, call).flatMap(both -> call).flatMap(all -> {
                try {
                    Service.log(rid, status);
                } catch (java.io.IOException e) {
                    return Mono.error(e);
                }
                return ServerResponse.status(status).contentType(MediaType.TEXT_PLAIN).bodyValue(rid);
            });
        }).build();
        var adapter = new ReactorHttpHandlerAdapter(RouterFunctions.toHttpHandler(routes));
        HttpServer.create().host("127.0.0.1").port(Service.PORT).handle(adapter).bindNow().onDispose().block();
    }
}
