import io.undertow.Undertow;
import io.undertow.server.handlers.BlockingHandler;

/** A handler on the pool of threads that Undertow has from JBoss, behind its own threads for input. */
public class UndertowService {
    public static void main(String[] args) {
        Undertow.builder().addHttpListener(Service.PORT, "127.0.0.1").setIoThreads(2).setHandler(new BlockingHandler(exchange -> {
            var rid = exchange.getQueryString();
            int status = Service.status(exchange.getRequestPath());
            Service.both(rid);
            Service.log(rid, status);
            exchange.setStatusCode(status).getResponseSender().send(rid);
        })).build().start();
    }
}
