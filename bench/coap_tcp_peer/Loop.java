import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.californium.core.coap.CoAP;
import org.eclipse.californium.core.coap.MessageObserverAdapter;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.TcpConfig;
import org.eclipse.californium.elements.tcp.netty.TcpClientConnector;

/**
 * A client on Californium over CoAP over TCP: so many connections, over each of which so many POSTs are under way; each answer lets the
 * next request go. The peer of requests.py.
 *
 *   Loop PORT CONNECTIONS SECONDS SIZE UNDER_WAY
 */
public final class Loop {

    private static final AtomicLong ANSWERS = new AtomicLong();
    private static volatile boolean stopping;

    private static void ask(CoapEndpoint endpoint, String uri, byte[] content) {
        Request request = new Request(CoAP.Code.POST);
        request.setURI(uri);
        request.setPayload(content);
        request.addMessageObserver(new MessageObserverAdapter() {
            @Override
            public void onResponse(Response response) {
                ANSWERS.incrementAndGet();
                if (!stopping) {
                    ask(endpoint, uri, content);
                }
            }
        });
        endpoint.sendRequest(request);
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        int connections = Integer.parseInt(arguments[1]);
        int seconds = Integer.parseInt(arguments[2]);
        byte[] content = new byte[Integer.parseInt(arguments[3])];
        int underWay = Integer.parseInt(arguments[4]);
        java.util.Arrays.fill(content, (byte) 'x');
        CoapConfig.register();
        TcpConfig.register();
        Configuration configuration = Configuration.createStandardWithoutFile();
        String uri = "coap+tcp://127.0.0.1:" + port + "/plimsoll/bench/00";
        for (int i = 0; i < connections; i++) {
            CoapEndpoint endpoint = CoapEndpoint.builder()
                    .setConfiguration(configuration)
                    .setConnector(new TcpClientConnector(configuration))
                    .build();
            endpoint.start();
            for (int each = 0; each < underWay; each++) {
                ask(endpoint, uri, content);
            }
        }
        Thread.sleep(seconds * 1000L);
        stopping = true;
        System.out.println(ANSWERS.get() + " answers");
        System.exit(0);
    }
}
