import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.util.ExecutorsUtil;
import org.eclipse.californium.elements.util.NamedThreadFactory;

/**
 * Devices on Californium that notify a server at a rate: the peer of lwm2m.py. It prints the processor time
 * of each notification.
 *
 *   Devices PORT DEVICES RATE SECONDS SIZE
 */
public final class Devices {

    private static final AtomicLong READ = new AtomicLong();
    private static byte[] content;

    /** What is observed of a device. */
    private static final class Observed extends CoapResource {
        Observed() {
            super("0");
            setObservable(true);
        }

        @Override
        public void handleGET(CoapExchange exchange) {
            READ.incrementAndGet();
            exchange.respond(CoAP.ResponseCode.CONTENT, content, 42);
        }
    }

    public static void main(String[] arguments) {
        try {
            measure(arguments);
        } catch (Exception error) {
            error.printStackTrace();
            // Threads of the devices would keep the process.
            System.exit(1);
        }
    }

    private static void measure(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        int devices = Integer.parseInt(arguments[1]);
        double rate = Double.parseDouble(arguments[2]);
        double hold = Double.parseDouble(arguments[3]);
        content = "x".repeat(Integer.parseInt(arguments[4])).getBytes(StandardCharsets.UTF_8);
        List<Runnable> all = new ArrayList<>();
        ScheduledExecutorService shared =
                ExecutorsUtil.newScheduledThreadPool(2, new NamedThreadFactory("devices"));
        for (int device = 0; device < devices; device++) {
            all.add(device(device, port, shared));
        }
        // Each was observed: that reads it once.
        long end = System.nanoTime() + 20_000_000_000L;
        while (READ.get() < devices && System.nanoTime() < end) {
            Thread.sleep(50);
        }
        if (READ.get() < devices) {
            System.err.println(READ.get() + " of " + devices + " devices are observed");
            System.exit(1);
        }
        // The virtual machine compiles what is used much.
        notify(all, rate, 10);
        long before = used();
        long sent = notify(all, rate, hold);
        System.out.printf("%d sent, %.2f us of processor time each%n", sent, (used() - before) / 1e3 / sent);
        System.exit(0);
    }

    private static long used() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static long notify(List<Runnable> all, double rate, double seconds) {
        long begin = System.nanoTime();
        long sent = 0;
        while (System.nanoTime() - begin < seconds * 1e9) {
            long due = (long) ((System.nanoTime() - begin) / 1e9 * rate);
            for (; sent < due; sent++) {
                all.get((int) (sent % all.size())).run();
            }
            LockSupport.parkNanos(100_000);
        }
        return sent;
    }

    private static Runnable device(int device, int port, ScheduledExecutorService shared) throws Exception {
        Configuration configuration = Configuration.createStandardWithoutFile();
        configuration.set(CoapConfig.PROTOCOL_STAGE_THREAD_COUNT, 1);
        CoapServer server = new CoapServer(configuration);
        server.setExecutors(shared, shared, true);
        Observed observed = new Observed();
        CoapResource object = new CoapResource("19");
        CoapResource instance = new CoapResource("0");
        server.add(object.add(instance.add(observed)));
        CoapEndpoint endpoint = CoapEndpoint.builder().setConfiguration(configuration)
                .setInetSocketAddress(new InetSocketAddress("127.0.0.1", 0)).build();
        server.addEndpoint(endpoint);
        server.start();
        Request registration = Request.newPost();
        registration.setURI("coap://127.0.0.1:" + port + "/rd?ep=californium-" + device + "&lt=86400&lwm2m=1.0&b=U");
        registration.getOptions().setContentFormat(40);
        registration.setPayload("</19/0>");
        registration.send(endpoint);
        registration.waitForResponse(10_000);
        return observed::changed;
    }
}
