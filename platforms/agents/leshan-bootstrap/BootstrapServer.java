import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.cert.CertificateFactory;
import java.util.Base64;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;
import org.eclipse.leshan.core.CertificateUsage;
import org.eclipse.leshan.core.SecurityMode;
import org.eclipse.leshan.core.request.Identity;
import org.eclipse.leshan.server.bootstrap.BootstrapConfig;
import org.eclipse.leshan.server.bootstrap.BootstrapConfigStore;
import org.eclipse.leshan.server.bootstrap.BootstrapFailureCause;
import org.eclipse.leshan.server.bootstrap.BootstrapSession;
import org.eclipse.leshan.server.bootstrap.DefaultBootstrapSessionManager;
import org.eclipse.leshan.server.californium.bootstrap.LeshanBootstrapServer;
import org.eclipse.leshan.server.californium.bootstrap.LeshanBootstrapServerBuilder;
import org.eclipse.leshan.server.security.BootstrapSecurityStore;
import org.eclipse.leshan.server.security.SecurityInfo;

/**
 * A small LwM2M bootstrap server on Eclipse Leshan. It tells each device that asks of one server, with a key or a certificate
 * where that server wants one. docs/leshan.md has the rest.
 */
public final class BootstrapServer implements BootstrapConfigStore {

    /** The number that a device has for its server. */
    private static final int SHORT_ID = 1;

    private final Options options;
    private final LeshanBootstrapServer leshan;
    private final LongAdder bootstrapped = new LongAdder();
    private final LongAdder failed = new LongAdder();

    /** What the command line says. */
    private static final class Options {
        String host = "127.0.0.1";
        int coapPort = 5783;
        int httpPort = 8081;
        int lifetime = 86_400;
        String server;
        byte[] ownKey;
        byte[] serverKey;
        byte[] serverCertificate;
        Path deviceCertificates;

        private static byte[] key(String file) throws IOException {
            return Files.readString(Path.of(file)).stripTrailing().getBytes(StandardCharsets.UTF_8);
        }

        Options(String[] arguments) throws IOException, GeneralSecurityException {
            for (int at = 0; at < arguments.length; at += 2) {
                String value = at + 1 < arguments.length ? arguments[at + 1] : "";
                switch (arguments[at]) {
                    case "--host" -> host = value;
                    case "--coap-port" -> coapPort = Integer.parseInt(value);
                    case "--http-port" -> httpPort = Integer.parseInt(value);
                    case "--server" -> server = value;
                    case "--lifetime" -> lifetime = Integer.parseInt(value);
                    case "--key-file" -> ownKey = key(value);
                    case "--server-key-file" -> serverKey = key(value);
                    case "--server-certificate" -> serverCertificate = certificate(Path.of(value));
                    case "--device-certificates" -> deviceCertificates = Path.of(value);
                    default -> throw new IllegalArgumentException("unknown option " + arguments[at]);
                }
            }
            if (server == null) {
                throw new IllegalArgumentException("--server names the server that devices are sent to");
            }
            if ((serverCertificate == null) != (deviceCertificates == null)) {
                throw new IllegalArgumentException("--server-certificate needs --device-certificates, and the other way round");
            }
        }
    }

    public static void main(String[] arguments) {
        try {
            new BootstrapServer(new Options(arguments)).start();
        } catch (IOException | GeneralSecurityException | RuntimeException error) {
            System.err.println("leshan-bootstrap-server: " + error.getMessage());
            System.exit(1);
        }
    }

    private BootstrapServer(Options options) {
        this.options = options;
        LeshanBootstrapServerBuilder builder = new LeshanBootstrapServerBuilder();
        Configuration limits = LeshanBootstrapServerBuilder.createDefaultCoapConfiguration();
        // Beyond that many devices, requests to further ones fail.
        limits.set(CoapConfig.MAX_ACTIVE_PEERS, 1_000_000);
        // All devices may ask at once. The kernel gives net.core.rmem_max at most.
        limits.set(UdpConfig.UDP_RECEIVE_BUFFER_SIZE, 16 << 20);
        limits.set(UdpConfig.UDP_SEND_BUFFER_SIZE, 16 << 20);
        builder.setCoapConfig(limits);
        BootstrapSecurityStore keys = null;
        if (options.ownKey == null) {
            builder.setLocalAddress(options.host, options.coapPort);
            builder.disableSecuredEndpoint();
        } else {
            builder.setLocalSecureAddress(options.host, options.coapPort);
            builder.disableUnsecuredEndpoint();
            keys = new OneKey(options.ownKey);
            builder.setSecurityStore(keys);
        }
        builder.setSessionManager(new DefaultBootstrapSessionManager(keys, this) {
            @Override
            public void end(BootstrapSession session) {
                bootstrapped.increment();
            }

            @Override
            public void failed(BootstrapSession session, BootstrapFailureCause cause) {
                failed.increment();
                System.err.printf("%s was not bootstrapped: %s%n", session.getEndpoint(), cause);
            }
        });
        leshan = builder.build();
    }

    /** All devices have the same key here, and each is known by its endpoint. */
    private record OneKey(byte[] key) implements BootstrapSecurityStore {
        @Override
        public Iterator<SecurityInfo> getAllByEndpoint(String endpoint) {
            return List.of(getByIdentity(endpoint)).iterator();
        }

        @Override
        public SecurityInfo getByIdentity(String identity) {
            return SecurityInfo.newPreSharedKeyInfo(identity, identity, key);
        }
    }

    /** What a device is told: it forgets the servers that it knows, and learns of one. */
    @Override
    public BootstrapConfig get(String endpoint, Identity device, BootstrapSession session) {
        BootstrapConfig config = new BootstrapConfig();
        config.toDelete = List.of("/0", "/1");
        BootstrapConfig.ServerSecurity security = new BootstrapConfig.ServerSecurity();
        security.uri = options.server;
        security.serverId = SHORT_ID;
        security.securityMode = SecurityMode.NO_SEC;
        if (options.serverKey != null) {
            security.securityMode = SecurityMode.PSK;
            security.publicKeyOrId = endpoint.getBytes(StandardCharsets.UTF_8);
            security.secretKey = options.serverKey;
        } else if (options.serverCertificate != null) {
            security.securityMode = SecurityMode.X509;
            // The server shows the very certificate that the device is given.
            security.certificateUsage = CertificateUsage.DOMAIN_ISSUER_CERTIFICATE;
            security.serverPublicKey = options.serverCertificate;
            try {
                security.publicKeyOrId = certificate(options.deviceCertificates.resolve(endpoint + ".pem"));
                security.secretKey = der(options.deviceCertificates.resolve(endpoint + ".key"));
            } catch (IOException | GeneralSecurityException error) {
                // No device is told of a server that it cannot reach.
                System.err.printf("%s has no certificate: %s%n", endpoint, error);
                return null;
            }
        }
        config.security.put(SHORT_ID, security);
        BootstrapConfig.ServerConfig server = new BootstrapConfig.ServerConfig();
        server.shortId = SHORT_ID;
        server.lifetime = options.lifetime;
        // By default, a device would notify once a second at most.
        server.defaultMinPeriod = 0;
        config.servers.put(0, server);
        return config;
    }

    private static byte[] certificate(Path file) throws IOException, GeneralSecurityException {
        try (InputStream text = Files.newInputStream(file)) {
            return CertificateFactory.getInstance("X.509").generateCertificate(text).getEncoded();
        }
    }

    /** What a file in PEM has, as it is. */
    private static byte[] der(Path file) throws IOException {
        return Base64.getMimeDecoder().decode(Files.readString(file).replaceAll("-----[A-Z ]+-----", ""));
    }

    private void start() throws IOException {
        leshan.start();
        // Last: whoever sees this port answer takes the server for ready.
        HttpServer http = HttpServer.create(new InetSocketAddress(options.host, options.httpPort), 16);
        http.createContext("/statistics", this::tell);
        http.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            http.stop(0);
            leshan.destroy();
            System.out.println(statistics());
            System.out.flush();
            // Being asked to end is no failure: without this the exit code is 143.
            Runtime.getRuntime().halt(0);
        }));
        String scheme = options.ownKey == null ? "coap" : "coaps";
        System.out.printf("listening on %s://%s:%d, http://%s:%d%n", scheme, options.host, options.coapPort, options.host,
                options.httpPort);
        System.out.flush();
    }

    private String statistics() {
        return "{\"bootstrapped\":%d,\"failed\":%d}".formatted(bootstrapped.sum(), failed.sum());
    }

    private void tell(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] text = statistics().getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
        }
    }
}
