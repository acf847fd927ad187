// A CoAP server on Eclipse Californium, for tests and measurements. Any path is a resource, which PUT writes, GET reads, and
// clients observe.
//
//   californium-server [--host 127.0.0.1] [--coap-port 5683] [--coap-tcp-port 0] [--ready-port 0]
//
// Port 0 for CoAP over TCP means: it is not served.
//
// It accepts TCP connections at the ready port as soon as it serves CoAP, and closes them.

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP.ResponseCode;
import org.eclipse.californium.core.coap.MediaTypeRegistry;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.core.server.resources.Resource;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.TcpConfig;
import org.eclipse.californium.elements.config.UdpConfig;
import org.eclipse.californium.elements.tcp.netty.TcpServerConnector;

public final class CaliforniumServer {
    /** What the socket asks the kernel for, in bytes. */
    private static final int RECEIVE_BUFFER = 8 * 1024 * 1024;

    /** What a resource holds. */
    private record State(byte[] content, int format) {
        static final State NOTHING = new State(new byte[0], MediaTypeRegistry.TEXT_PLAIN);
    }

    /** A resource with those below it. Each is there as soon as somebody names it, so that it can be observed before a PUT. */
    private static final class Kept extends CoapResource {
        private final Map<String, Kept> below = new ConcurrentHashMap<>();
        private volatile State state = State.NOTHING;

        Kept(String name) {
            super(name);
            setObservable(true);
        }

        @Override
        public Resource getChild(String name) {
            // The server itself adds some, such as .well-known.
            Resource known = super.getChild(name);
            return known != null ? known : below.computeIfAbsent(name, Kept::new);
        }

        @Override
        public void handleGET(CoapExchange exchange) {
            State now = state;
            if (now == State.NOTHING && !exchange.getRequestOptions().hasObserve()) {
                exchange.respond(ResponseCode.NOT_FOUND);
            } else {
                exchange.respond(ResponseCode.CONTENT, now.content, now.format);
            }
        }

        @Override
        public void handlePUT(CoapExchange exchange) {
            boolean isNew = state == State.NOTHING;
            int format = exchange.getRequestOptions().getContentFormat();
            boolean named = format != MediaTypeRegistry.UNDEFINED;
            state = new State(exchange.getRequestPayload(), named ? format : MediaTypeRegistry.TEXT_PLAIN);
            exchange.respond(isNew ? ResponseCode.CREATED : ResponseCode.CHANGED);
            changed();
        }
    }

    public static void main(String[] arguments) throws IOException {
        String host = "127.0.0.1";
        int port = 5683;
        int tcp = 0;
        int ready = 0;
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            String value = arguments[i + 1];
            switch (arguments[i]) {
                case "--host" -> host = value;
                case "--coap-port" -> port = Integer.parseInt(value);
                case "--coap-tcp-port" -> tcp = Integer.parseInt(value);
                case "--ready-port" -> ready = Integer.parseInt(value);
                default -> throw new IllegalArgumentException("unknown: " + arguments[i]);
            }
        }
        CoapConfig.register();
        UdpConfig.register();
        TcpConfig.register();
        Configuration configuration = Configuration.createStandardWithoutFile();
        configuration.set(UdpConfig.UDP_RECEIVE_BUFFER_SIZE, RECEIVE_BUFFER);
        CoapServer server = new CoapServer(configuration) {
            @Override
            protected Resource createRoot() {
                return new Kept("");
            }
        };
        server.addEndpoint(CoapEndpoint.builder()
                .setConfiguration(configuration)
                .setInetSocketAddress(new InetSocketAddress(host, port))
                .build());
        if (tcp > 0) {
            server.addEndpoint(CoapEndpoint.builder()
                    .setConfiguration(configuration)
                    .setConnector(new TcpServerConnector(new InetSocketAddress(host, tcp), configuration))
                    .build());
        }
        server.start();
        try (ServerSocket door = new ServerSocket(ready, 50, InetAddress.getByName(host))) {
            while (true) {
                door.accept().close();
            }
        }
    }
}
