import com.sun.net.httpserver.HttpServer;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.concurrent.Executors;

/**
 * The JDK's HTTP server whose threads share a HikariCP pool of connections to PostgreSQL. Each request takes a connection,
 * asks twice, and gives it back. Arguments: PORT THREADS CONNECTIONS JDBC_URL.
 */
public final class Hikari {
    private static String answer(HikariDataSource pool) throws Exception {
        try (Connection connection = pool.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute("SELECT pg_sleep(0.008)");
            try (ResultSet rows = statement.executeQuery("SELECT count(*) FROM generate_series(1, 2000)")) {
                rows.next();
                return rows.getString(1);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        HikariConfig config = new HikariConfig();
        config.setMaximumPoolSize(Integer.parseInt(args[2]));
        config.setJdbcUrl(args[3]);
        config.setUsername("postgres");
        HikariDataSource pool = new HikariDataSource(config);
        HttpServer server =
            HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0])), 128);
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(args[1])));
        server.createContext("/", exchange -> {
            byte[] body;
            int status = 200;
            try {
                body = answer(pool).getBytes();
            } catch (Exception problem) {
                status = 500;
                body = problem.toString().getBytes();
            }
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
