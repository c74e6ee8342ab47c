import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import org.apache.catalina.startup.Tomcat;

/** A servlet on Tomcat's own pool of threads. */
public class TomcatService extends HttpServlet {
    public static void main(String[] args) throws Exception {
        var tomcat = new Tomcat();
        tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
        tomcat.setPort(Service.PORT);
        tomcat.getConnector();
        var context = tomcat.addContext("", new File(System.getProperty("java.io.tmpdir")).getAbsolutePath());
        Tomcat.addServlet(context, "service", new TomcatService());
        context.addServletMappingDecoded("/", "service");
        tomcat.start();
        tomcat.getServer().await();
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse reply) throws IOException {
        var rid = request.getQueryString();
        int status = Service.status(request.getRequestURI());
        Service.both(rid);
        Service.log(rid, status);
        reply.setStatus(status);
        reply.setContentLength(rid.length());
        reply.getWriter().print(rid);
    }
}
