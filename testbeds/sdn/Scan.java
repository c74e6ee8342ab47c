import jakarta.servlet.ServletConfig;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.HexFormat;

/** YCSB's scan over HTTP: GET /scan/N gives ten records from N on, from memcached or else from the database: about 10 kB. */
public class Scan extends HttpServlet {
    private static final int ROWS = 10;
    /** Recent results alone are kept, so that both servers are asked. */
    private static final int KEPT_S = 1;
    /** The page's tag is hashed so often that the web server, on its one processor, is the bottleneck, as in the paper. */
    private static final int TAG_ROUNDS = 10;

    private String db;
    private String cacheHost;
    private int records;
    private final ThreadLocal<PreparedStatement> statements = new ThreadLocal<>();
    private final ThreadLocal<Cache> caches = new ThreadLocal<>();

    @Override
    public void init(ServletConfig config) throws ServletException {
        super.init(config);
        db = "jdbc:mariadb://" + config.getInitParameter("db") + ":3306/ycsb?user=root";
        cacheHost = config.getInitParameter("cache");
        records = Integer.parseInt(config.getInitParameter("records"));
        try {
            Class.forName("org.mariadb.jdbc.Driver");
        } catch (ClassNotFoundException e) {
            throw new ServletException(e);
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String path = request.getPathInfo();
        int first;
        try {
            first = Integer.parseInt(path == null ? "" : path.substring(1));
        } catch (NumberFormatException e) {
            response.sendError(404);
            return;
        }
        if (first < 1 || first > records) {
            response.sendError(404);
            return;
        }
        Cache cache = caches.get();
        try {
            if (cache == null) {
                cache = new Cache(cacheHost);
                caches.set(cache);
            }
            byte[] found = cache.get("scan:" + first);
            if (found == null) {
                found = read(first);
                cache.set("scan:" + first, found);
            }
            response.setHeader("ETag", tag(found));
            response.setContentType("text/plain");
            response.setContentLength(found.length);
            response.getOutputStream().write(found);
        } catch (IOException | SQLException e) {
            caches.remove();
            statements.remove();
            log("scan", e);
            if (!response.isCommitted()) {
                response.sendError(503);
            }
        }
    }

    private static String tag(byte[] page) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (int round = 0; round < TAG_ROUNDS; round++) {
                digest.update(page);
            }
            return '"' + HexFormat.of().formatHex(digest.digest(), 0, 8) + '"';
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private byte[] read(int first) throws SQLException {
        PreparedStatement statement = statements.get();
        if (statement == null) {
            Connection connection = DriverManager.getConnection(db);
            statement = connection.prepareStatement("SELECT * FROM usertable WHERE id >= ? ORDER BY id LIMIT " + ROWS);
            statements.set(statement);
        }
        statement.setInt(1, first);
        StringBuilder text = new StringBuilder(ROWS * 1024);
        try (ResultSet rows = statement.executeQuery()) {
            while (rows.next()) {
                for (int column = 1; column <= 11; column++) {
                    text.append(rows.getString(column)).append('\n');
                }
            }
        }
        if (text.length() == 0) {
            throw new SQLException("no record from " + first + " on");
        }
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** The two commands of memcached's text protocol that are needed. */
    private static final class Cache {
        private final InputStream in;
        private final OutputStream out;

        Cache(String host) throws IOException {
            Socket socket = new Socket(host, 11211);
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream(), 16384);
            out = new BufferedOutputStream(socket.getOutputStream(), 16384);
        }

        byte[] get(String key) throws IOException {
            out.write(("get " + key + "\r\n").getBytes(StandardCharsets.US_ASCII));
            out.flush();
            String line = line();
            if (line.equals("END")) {
                return null;
            }
            int length = Integer.parseInt(line.substring(line.lastIndexOf(' ') + 1));
            byte[] value = in.readNBytes(length);
            line();
            line();
            return value;
        }

        void set(String key, byte[] value) throws IOException {
            out.write(("set " + key + " 0 " + KEPT_S + " " + value.length + "\r\n").getBytes(StandardCharsets.US_ASCII));
            out.write(value);
            out.write('\r');
            out.write('\n');
            out.flush();
            line();
        }

        private String line() throws IOException {
            StringBuilder text = new StringBuilder();
            for (int c = in.read(); c != '\n'; c = in.read()) {
                if (c < 0) {
                    throw new IOException("memcached closed the connection");
                }
                text.append((char) c);
            }
            text.setLength(Math.max(0, text.length() - 1));
            return text.toString();
        }
    }
}
