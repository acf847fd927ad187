import io.moquette.broker.Server;
import io.moquette.broker.config.MemoryConfig;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

/**
 * Moquette that keeps everything in memory: {@code MoquetteBroker FOLDER PORT [WEBSOCKET_PORT [TLS_PORT CERTIFICATE KEY]]}.
 */
public final class MoquetteBroker {
  /** Nobody else may read the folder. */
  private static final String PASSWORD = "plimsoll";

  private MoquetteBroker() {
  }

  /** Puts a certificate and its key, both in PEM, into a key store, which is what the broker reads. */
  private static void keep(Path certificate, Path key, Path store) throws Exception {
    Certificate own;
    try (InputStream in = Files.newInputStream(certificate)) {
      own = CertificateFactory.getInstance("X.509").generateCertificate(in);
    }
    byte[] bytes = Base64.getDecoder().decode(Files.readString(key).replaceAll("-----[A-Z ]+-----|\\s", ""));
    KeyFactory keys = KeyFactory.getInstance(own.getPublicKey().getAlgorithm());
    KeyStore made = KeyStore.getInstance("JKS");
    made.load(null, null);
    made.setKeyEntry("broker", keys.generatePrivate(new PKCS8EncodedKeySpec(bytes)), PASSWORD.toCharArray(), new Certificate[] {own});
    try (OutputStream out = Files.newOutputStream(store)) {
      made.store(out, PASSWORD.toCharArray());
    }
  }

  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    settings.setProperty("host", "127.0.0.1");
    settings.setProperty("port", arguments[1]);
    settings.setProperty("allow_anonymous", "true");
    settings.setProperty("persistence_enabled", "false");
    settings.setProperty("telemetry_enabled", "false");
    settings.setProperty("data_path", arguments[0]);
    // The default is 8 KiB.
    settings.setProperty("netty.mqtt.message_size", "1100000");
    // Acknowledgements leave at once.
    settings.setProperty("immediate_buffer_flush", "true");
    if (arguments.length > 2) {
      settings.setProperty("websocket_port", arguments[2]);
    }
    if (arguments.length > 5) {
      Path store = Path.of(arguments[0]).resolve("keys.jks");
      keep(Path.of(arguments[4]), Path.of(arguments[5]), store);
      settings.setProperty("ssl_port", arguments[3]);
      settings.setProperty("jks_path", store.toString());
      settings.setProperty("key_store_password", PASSWORD);
      settings.setProperty("key_manager_password", PASSWORD);
    }
    Server server = new Server();
    server.startServer(new MemoryConfig(settings));
    Runtime.getRuntime().addShutdownHook(new Thread(server::stopServer));
    new CountDownLatch(1).await();
  }
}
