import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.util.Callback;

/** A handler on Jetty's own pool of threads. */
public class JettyService {
    public static void main(String[] args) throws Exception {
        var server = new Server(Service.PORT);
        server.setHandler(new Handler.Abstract() {
            @Override
            public boolean handle(Request request, Response reply, Callback done) throws Exception {
                var rid = request.getHttpURI().getQuery();
                int status = Service.status(request.getHttpURI().getPath());
                Service.both(rid);
                Service.log(rid, status);
                reply.setStatus(status);
                Content.Sink.write(reply, true, rid, done);
                return true;
            }
        });
        server.start();
        server.join();
    }
}
