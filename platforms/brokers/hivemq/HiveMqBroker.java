import com.hivemq.configuration.service.InternalConfigurations;
import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/**
 * HiveMQ Community Edition with one folder for everything: {@code HiveMqBroker FOLDER [CERTIFICATE KEY]}. The folder has
 * {@code conf/config.xml}. A listener with TLS finds the certificate in the key store {@code keys.jks} of the folder.
 */
public final class HiveMqBroker {
  /** Lets every client in: without somebody who decides, the broker lets nobody in. */
  private static final class LetIn implements ExtensionMain {
    @Override
    public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
      SimpleAuthenticator everybody = (client, answer) -> answer.authenticateSuccessfully();
      Services.securityRegistry().setAuthenticatorProvider(ignored -> everybody);
    }

    @Override
    public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {
    }
  }

  private HiveMqBroker() {
  }

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    if (arguments.length > 2) {
      Keys.keep(Path.of(arguments[1]), Path.of(arguments[2]), folder.resolve("keys.jks"));
    }
    // What no setting of the file reaches. By default, 50 messages are under way to a client at once; with 65,535, it delivers none. Of those
    // at QoS 0 that wait for a client which reads slowly, all but 1,000 are dropped by default.
    InternalConfigurations.MAX_INFLIGHT_WINDOW_SIZE_MESSAGES = 10_000;
    InternalConfigurations.NOT_WRITABLE_QUEUE_SIZE.set(1_000_000);
    Path data = Files.createDirectories(folder.resolve("data"));
    Path extensions = Files.createDirectories(folder.resolve("extensions"));
    EmbeddedExtension letIn = EmbeddedExtension.builder()
        .withId("let-in")
        .withName("let-in")
        .withVersion("1")
        .withPriority(0)
        .withStartPriority(1000)
        .withExtensionMain(new LetIn())
        .build();
    EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
        .withConfigurationFolder(folder.resolve("conf"))
        .withDataFolder(data)
        .withExtensionsFolder(extensions)
        .withEmbeddedExtension(letIn)
        .build();
    broker.start().join();
    new CountDownLatch(1).await();
  }
}
