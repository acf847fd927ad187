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

/** What brokers in Java want instead of PEM. Those beside this folder compile this file, too. */
final class Keys {
  /** Nobody else may read the folder of a key store. */
  static final String PASSWORD = "plimsoll";

  private Keys() {
  }

  /** Puts a certificate and its key, both in PEM, into a key store. */
  static void keep(Path certificate, Path key, Path store) throws Exception {
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
}
