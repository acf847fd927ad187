import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.leshan.core.endpoint.Protocol;
import org.eclipse.leshan.core.model.*;
import org.eclipse.leshan.core.model.ResourceModel.Operations;
import org.eclipse.leshan.core.model.ResourceModel.Type;
import org.eclipse.leshan.core.node.*;
import org.eclipse.leshan.core.observation.CompositeObservation;
import org.eclipse.leshan.core.observation.Observation;
import org.eclipse.leshan.core.observation.SingleObservation;
import org.eclipse.leshan.core.peer.OscoreIdentity;
import org.eclipse.leshan.core.request.*;
import org.eclipse.leshan.core.request.exception.TimeoutException;
import org.eclipse.leshan.core.response.LwM2mResponse;
import org.eclipse.leshan.core.response.ObserveCompositeResponse;
import org.eclipse.leshan.core.response.ObserveResponse;
import org.eclipse.leshan.core.response.ReadResponse;
import org.eclipse.leshan.server.LeshanServer;
import org.eclipse.leshan.server.LeshanServerBuilder;
import org.eclipse.leshan.server.model.StaticModelProvider;
import org.eclipse.leshan.server.observation.ObservationListener;
import org.eclipse.leshan.server.registration.Registration;
import org.eclipse.leshan.server.registration.RegistrationListener;
import org.eclipse.leshan.server.registration.RegistrationUpdate;
import org.eclipse.leshan.server.send.SendListener;
import org.eclipse.leshan.servers.security.SecurityInfo;
import org.eclipse.leshan.servers.security.SecurityStore;
import org.eclipse.leshan.transport.californium.server.endpoint.CaliforniumServerEndpointsProvider;
import org.eclipse.leshan.transport.californium.server.endpoint.coap.CoapServerProtocolProvider;
import org.eclipse.leshan.transport.californium.server.endpoint.coaps.CoapsServerProtocolProvider;

/**
 * A small LwM2M server on Eclipse Leshan. It observes each device that registers, posts what devices notify to subscribers or
 * writes it to a context broker in NGSIv2, and lets applications read, write and execute over HTTP. docs/leshan.md has the rest.
 */
public final class LeshanPlatform implements RegistrationListener, ObservationListener, SendListener {

    /** Milliseconds that a device has for an answer. A request is repeated after 2 to 3, 6 to 9 and more seconds. */
    private static final long ANSWER_WITHIN = 10_000;
    /** The time that a subscriber or a broker has for an answer. */
    private static final Duration DELIVER_WITHIN = Duration.ofSeconds(30);
    private static final String ENTITY_TYPE = "Device";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    /** What is counted. A delivery is a request to one subscriber or to the broker; a notification may be several of them. */
    private enum Count {
        REGISTRATIONS, UPDATES, DEREGISTRATIONS, EXPIRED, OBSERVED, NOT_OBSERVED, NOTIFICATIONS, SENT, UNREADABLE, DELIVERED,
        FAILED, DROPPED
    }

    private final Options options;
    private final LeshanServer leshan;
    private final StaticModel model = new StaticModel(models());
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final ThreadPoolExecutor[] lanes;
    private final Map<Integer, URI> subscriptions = new ConcurrentSkipListMap<>();
    private final AtomicInteger lastSubscription = new AtomicInteger();
    private final Map<Count, LongAdder> counts = new EnumMap<>(Count.class);
    private volatile String lastFailure;

    /** What the command line says. */
    private static final class Options {
        String host = "127.0.0.1";
        int coapPort = 5683;
        int httpPort = 8080;
        int senders = 16;
        int queue = 65_536;
        final List<LwM2mPath> observe = new ArrayList<>();
        ContentFormat format;
        byte[] key;
        X509Certificate certificate;
        PrivateKey certificateKey;
        X509Certificate trusted;
        String ngsi;
        String service = "";
        String path = "/";
        String entityPrefix = "";

        boolean isSecured() {
            return key != null || certificate != null;
        }

        private static X509Certificate certificate(String file) throws IOException, GeneralSecurityException {
            try (InputStream text = Files.newInputStream(Path.of(file))) {
                return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(text);
            }
        }

        /** A key for an elliptic curve, in PEM (PKCS #8). */
        private static PrivateKey privateKey(String file) throws IOException, GeneralSecurityException {
            String text = Files.readString(Path.of(file)).replaceAll("-----[A-Z ]+-----", "");
            return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(text)));
        }

        Options(String[] arguments) throws IOException, GeneralSecurityException {
            for (int at = 0; at < arguments.length; at += 2) {
                String value = at + 1 < arguments.length ? arguments[at + 1] : "";
                switch (arguments[at]) {
                    case "--host" -> host = value;
                    case "--coap-port" -> coapPort = Integer.parseInt(value);
                    case "--http-port" -> httpPort = Integer.parseInt(value);
                    case "--senders" -> senders = Integer.parseInt(value);
                    case "--queue" -> queue = Integer.parseInt(value);
                    case "--observe" -> observe.add(new LwM2mPath(value));
                    case "--format" -> format = Objects.requireNonNull(
                            ContentFormat.fromName(value.toUpperCase(Locale.ROOT).replace('-', '_')), "no format " + value);
                    case "--key-file" -> key = Files.readString(Path.of(value)).stripTrailing().getBytes(StandardCharsets.UTF_8);
                    case "--certificate" -> certificate = certificate(value);
                    case "--certificate-key" -> certificateKey = privateKey(value);
                    case "--trust" -> trusted = certificate(value);
                    case "--ngsi" -> ngsi = value;
                    case "--service" -> service = value;
                    case "--path" -> path = value;
                    case "--entity-prefix" -> entityPrefix = value;
                    default -> throw new IllegalArgumentException("unknown option " + arguments[at]);
                }
            }
        }
    }

    public static void main(String[] arguments) {
        // Without this, a small answer waits up to 40 ms for the acknowledgement of its own head.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        // By default, connections beyond 200 are closed after each answer, and all others after 30 s.
        System.setProperty("sun.net.httpserver.maxIdleConnections", "65536");
        System.setProperty("sun.net.httpserver.idleInterval", "3600");
        try {
            new LeshanPlatform(new Options(arguments)).start();
        } catch (IOException | GeneralSecurityException | RuntimeException error) {
            System.err.println("leshan-server: " + error.getMessage());
            System.exit(1);
        }
    }

    private LeshanPlatform(Options options) {
        this.options = options;
        Arrays.stream(Count.values()).forEach(count -> counts.put(count, new LongAdder()));
        // A device always has the same lane: a lane sends one request after the other, so that the order is kept.
        lanes = new ThreadPoolExecutor[options.senders];
        Arrays.setAll(lanes, at -> new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(Math.max(1, options.queue / options.senders)),
                (task, lane) -> count(Count.DROPPED)));

        var endpoints = new CaliforniumServerEndpointsProvider.Builder(new CoapServerProtocolProvider(),
                new CoapsServerProtocolProvider());
        endpoints.setConfiguration(LeshanPlatform::raiseLimits);
        endpoints.addEndpoint(new InetSocketAddress(options.host, options.coapPort),
                options.isSecured() ? Protocol.COAPS : Protocol.COAP);
        LeshanServerBuilder builder = new LeshanServerBuilder();
        if (options.key != null) {
            builder.setSecurityStore(new OneKey(options.key));
        }
        if (options.certificate != null) {
            builder.setCertificateChain(new X509Certificate[] { options.certificate });
            builder.setPrivateKey(options.certificateKey);
            builder.setTrustedCertificates(new X509Certificate[] { options.trusted });
            builder.setSecurityStore(new OwnCertificates());
        }
        builder.setEndpointsProviders(endpoints.build());
        builder.setObjectModelProvider(new StaticModelProvider(model));
        leshan = builder.build();
        leshan.getRegistrationService().addListener(this);
        leshan.getObservationService().addListener(this);
        leshan.getSendService().addListener(this);
    }

    /** All devices have the same key, and each is known by its endpoint. */
    private record OneKey(byte[] key) implements SecurityStore {
        @Override
        public SecurityInfo getByEndpoint(String endpoint) {
            return SecurityInfo.newPreSharedKeyInfo(endpoint, endpoint, key);
        }

        @Override
        public SecurityInfo getByIdentity(String identity) {
            return getByEndpoint(identity);
        }

        @Override
        public SecurityInfo getByOscoreIdentity(OscoreIdentity identity) {
            return null;
        }
    }

    /** Each device has a certificate for the name of its endpoint. */
    private static final class OwnCertificates implements SecurityStore {
        @Override
        public SecurityInfo getByEndpoint(String endpoint) {
            return SecurityInfo.newX509CertInfo(endpoint);
        }

        @Override
        public SecurityInfo getByIdentity(String identity) {
            return null;
        }

        @Override
        public SecurityInfo getByOscoreIdentity(OscoreIdentity identity) {
            return null;
        }
    }

    /** Raises the limits at which Californium drops something silently. */
    private static void raiseLimits(Configuration limits) {
        // Beyond that many devices, requests to further ones fail: they get no message id.
        limits.set(CoapConfig.MAX_ACTIVE_PEERS, 1_000_000);
        limits.set(DtlsConfig.DTLS_MAX_CONNECTIONS, 1_000_000);
        // By default, it remembers each message for 247 s. That takes much memory, and a device that sends 65,536 messages in
        // that time reuses known ids: its new messages are acknowledged and dropped as repetitions. A device repeats only what
        // it has under way, so that its last messages suffice.
        limits.set(CoapConfig.DEDUPLICATOR, CoapConfig.DEDUPLICATOR_PEERS_MARK_AND_SWEEP);
        limits.set(CoapConfig.PEERS_MARK_AND_SWEEP_MESSAGES, 16);
        // It would drop datagrams above 2048 bytes, and would split values that are written into blocks of 512.
        limits.set(UdpConfig.UDP_DATAGRAM_SIZE, 65_535);
        limits.set(CoapConfig.MAX_MESSAGE_SIZE, 60_000);
        limits.set(CoapConfig.MAX_RESOURCE_BODY_SIZE, 1 << 20);
        // All devices may register at once. The kernel gives net.core.rmem_max at most.
        limits.set(UdpConfig.UDP_RECEIVE_BUFFER_SIZE, 16 << 20);
        limits.set(UdpConfig.UDP_SEND_BUFFER_SIZE, 16 << 20);
    }

    /**
     * Without a model, a value arrives as bytes. Leshan brings the objects of LwM2M itself (0 to 7 and 21); beside these there is
     * the container for bytes (19), and the sensors and actuators of IPSO (33xx), which share the numbers of their resources.
     */
    private static List<ObjectModel> models() {
        List<ObjectModel> models = new ArrayList<>(ObjectLoader.loadDefault());
        models.add(new ObjectModel(19, "BinaryAppDataContainer", "", "1.0", true, false,
                resource(0, Operations.RW, Type.OPAQUE), resource(1, Operations.RW, Type.INTEGER),
                resource(2, Operations.RW, Type.TIME), resource(3, Operations.RW, Type.STRING),
                resource(4, Operations.RW, Type.STRING), resource(5, Operations.RW, Type.INTEGER)));
        for (int object = 3300; object <= 3347; object++) {
            models.add(new ObjectModel(object, "IPSO", "", "1.0", true, false,
                    resource(5700, Operations.R, Type.FLOAT), resource(5701, Operations.R, Type.STRING),
                    resource(5601, Operations.R, Type.FLOAT), resource(5602, Operations.R, Type.FLOAT),
                    resource(5603, Operations.R, Type.FLOAT), resource(5604, Operations.R, Type.FLOAT),
                    resource(5605, Operations.E, Type.NONE), resource(5500, Operations.R, Type.BOOLEAN),
                    resource(5501, Operations.R, Type.INTEGER), resource(5518, Operations.R, Type.TIME),
                    resource(5750, Operations.RW, Type.STRING), resource(5821, Operations.RW, Type.FLOAT),
                    resource(5850, Operations.RW, Type.BOOLEAN), resource(5851, Operations.RW, Type.INTEGER)));
        }
        return models;
    }

    private static ResourceModel resource(int id, Operations operations, Type type) {
        return new ResourceModel(id, "resource " + id, operations, false, false, type, "", "", "");
    }

    private void start() throws IOException {
        leshan.start();
        // Last: whoever sees this port answer takes the server for ready.
        HttpServer http = HttpServer.create(new InetSocketAddress(options.host, options.httpPort), 1024);
        http.createContext("/", this::serve);
        // Nobody waits in these threads: what a device is asked is answered when the device has answered.
        http.setExecutor(Executors.newFixedThreadPool(4));
        http.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            http.stop(0);
            leshan.destroy();
            System.out.println(statistics());
            System.out.flush();
            // Being asked to end is no failure: without this the exit code is 143.
            Runtime.getRuntime().halt(0);
        }));
        String scheme = options.isSecured() ? "coaps" : "coap";
        System.out.printf("listening on %s://%s:%d, http://%s:%d%n", scheme, options.host, options.coapPort, options.host,
                options.httpPort);
        System.out.flush();
    }

    private void count(Count count) {
        counts.get(count).increment();
    }

    private ObjectNode statistics() {
        ObjectNode all = NODES.objectNode();
        counts.forEach((count, number) -> all.put(count.name().toLowerCase(Locale.ROOT), number.sum()));
        all.put("registered", endpoints().size());
        all.put("waiting", Arrays.stream(lanes).mapToInt(lane -> lane.getQueue().size()).sum());
        all.put("last_failure", lastFailure);
        return all;
    }

    private List<String> endpoints() {
        List<String> endpoints = new ArrayList<>();
        leshan.getRegistrationService().getAllRegistrations().forEachRemaining(own -> endpoints.add(own.getEndpoint()));
        return endpoints;
    }

    // Devices.

    @Override
    public void registered(Registration registration, Registration previous, Collection<Observation> previousObservations) {
        count(Count.REGISTRATIONS);
        String endpoint = registration.getEndpoint();
        if (options.ngsi != null) {
            // The entity has no attribute yet: an empty one would be a change that subscribers are notified of.
            ObjectNode entity = NODES.objectNode().put("id", options.entityPrefix + endpoint).put("type", ENTITY_TYPE);
            lane(endpoint).execute(() -> toBroker("/v2/entities?options=upsert", entity));
        }
        for (LwM2mPath path : options.observe) {
            leshan.send(registration, new ObserveRequest(options.format, path, null),
                    answer -> observed(endpoint, path, answer.isSuccess() ? null : answer.getCode().toString()),
                    error -> observed(endpoint, path, error.toString()));
        }
    }

    private void observed(String endpoint, LwM2mPath path, String refusal) {
        count(refusal == null ? Count.OBSERVED : Count.NOT_OBSERVED);
        if (refusal != null) {
            System.err.printf("%s of %s is not observed: %s%n", path, endpoint, refusal);
        }
    }

    @Override
    public void updated(RegistrationUpdate update, Registration updated, Registration previous) {
        count(Count.UPDATES);
    }

    @Override
    public void unregistered(Registration registration, Collection<Observation> observations, boolean expired,
            Registration next) {
        // A device that registers anew ends its registration before, which is no deregistration.
        if (next == null) {
            count(expired ? Count.EXPIRED : Count.DEREGISTRATIONS);
        }
    }

    @Override
    public void onResponse(SingleObservation observation, Registration registration, ObserveResponse response) {
        count(Count.NOTIFICATIONS);
        if (!response.isSuccess()) {
            unreadable(registration, "notified " + response.getCode());
            return;
        }
        pass(registration.getEndpoint(), observation.getPath(), json(response.getContent()));
    }

    /** What devices send of themselves. */
    @Override
    public void dataReceived(Registration registration, TimestampedLwM2mNodes data, SendRequest request) {
        count(Count.SENT);
        data.getMostRecentNodes().forEach((path, node) -> pass(registration.getEndpoint(), path, json(node)));
    }

    @Override
    public void onError(Registration registration, String why, Exception error) {
        count(Count.SENT);
        unreadable(registration, why);
    }

    private void pass(String endpoint, LwM2mPath path, JsonNode value) {
        if (options.ngsi != null) {
            lane(endpoint).execute(() -> update(endpoint, path, value));
        }
        if (!subscriptions.isEmpty()) {
            lane(endpoint).execute(() -> toSubscribers(message(endpoint, path, value)));
        }
    }

    @Override
    public void onError(Observation observation, Registration registration, Exception error) {
        count(Count.NOTIFICATIONS);
        unreadable(registration, error.toString());
    }

    private void unreadable(Registration registration, String why) {
        count(Count.UNREADABLE);
        lastFailure = registration.getEndpoint() + ": " + why;
    }

    @Override
    public void onResponse(CompositeObservation observation, Registration registration, ObserveCompositeResponse response) {
        // Nobody asks for such an observation.
    }

    @Override
    public void newObservation(Observation observation, Registration registration) {
        // Counted where it is asked for.
    }

    @Override
    public void cancelled(Observation observation) {
        // A new registration of the device is observed anew.
    }

    // Subscribers and the broker.

    private ThreadPoolExecutor lane(String endpoint) {
        return lanes[Math.floorMod(endpoint.hashCode(), lanes.length)];
    }

    private void toSubscribers(ObjectNode message) {
        subscriptions.values().forEach(url -> deliver(HttpRequest.newBuilder(url), message));
    }

    /** Adds the attribute where the entity does not have it yet, which PATCH would refuse. */
    private void update(String endpoint, LwM2mPath path, JsonNode value) {
        String type = value.isNumber() ? "Number" : value.isBoolean() ? "Boolean" : "StructuredValue";
        ObjectNode attributes = NODES.objectNode();
        // Names of attributes have no slash. Texts of this type may have any character.
        attributes.putObject(path.toString().substring(1).replace('/', '_'))
                .put("type", value.isTextual() ? "TextUnrestricted" : type).set("value", value);
        String id = URLEncoder.encode(options.entityPrefix + endpoint, StandardCharsets.UTF_8).replace("+", "%20");
        toBroker("/v2/entities/" + id + "/attrs?type=" + ENTITY_TYPE, attributes);
    }

    private void toBroker(String target, ObjectNode body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(options.ngsi + target));
        if (!options.service.isEmpty()) {
            request.header("Fiware-Service", options.service);
        }
        deliver(request.header("Fiware-ServicePath", options.path), body);
    }

    private void deliver(HttpRequest.Builder request, ObjectNode body) {
        try {
            HttpRequest complete = request.timeout(DELIVER_WITHIN).header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofByteArray(JSON.writeValueAsBytes(body))).build();
            int status = client.send(complete, HttpResponse.BodyHandlers.discarding()).statusCode();
            if (status / 100 == 2) {
                count(Count.DELIVERED);
                return;
            }
            lastFailure = complete.uri() + ": " + status;
        } catch (IOException | InterruptedException | RuntimeException error) {
            lastFailure = error.toString();
        }
        count(Count.FAILED);
    }

    // Applications.

    private void serve(HttpExchange exchange) {
        try {
            String[] parts = exchange.getRequestURI().getPath().substring(1).split("/", 3);
            byte[] body = exchange.getRequestBody().readAllBytes();
            String route = exchange.getRequestMethod() + " " + parts[0] + " " + parts.length;
            switch (route) {
                case "GET statistics 1" -> reply(exchange, 200, statistics());
                case "GET clients 1" -> reply(exchange, 200, JSON.valueToTree(endpoints()));
                case "GET clients 3", "PUT clients 3", "POST clients 3", "POST observations 3" ->
                        ask(exchange, parts, body);
                case "DELETE observations 3" -> forget(exchange, parts[1], parts[2]);
                case "POST subscriptions 1" -> {
                    URI url = URI.create(JSON.readTree(body).path("url").asText());
                    // It refuses what is no URL of HTTP.
                    HttpRequest.newBuilder(url);
                    int number = lastSubscription.incrementAndGet();
                    subscriptions.put(number, url);
                    exchange.getResponseHeaders().set("Location", "/subscriptions/" + number);
                    reply(exchange, 201, null);
                }
                case "DELETE subscriptions 2" -> {
                    boolean known = subscriptions.remove(Integer.valueOf(parts[1])) != null;
                    reply(exchange, known ? 204 : 404, null);
                }
                default -> reply(exchange, 404, error("nothing is served by " + route));
            }
        } catch (Exception error) {
            reply(exchange, 400, error(error.toString()));
        }
    }

    /** Reads, writes, executes or observes at a device. */
    private void ask(HttpExchange exchange, String[] parts, byte[] body) throws IOException {
        String endpoint = parts[1];
        String path = parts[2];
        Registration registration = leshan.getRegistrationService().getByEndpoint(endpoint);
        if (registration == null) {
            reply(exchange, 404, error(endpoint + " is not registered"));
            return;
        }
        LwM2mPath at = new LwM2mPath(path);
        DownlinkDeviceManagementRequest<? extends LwM2mResponse> request = switch (exchange.getRequestMethod() + " " + parts[0]) {
            case "GET clients" -> new ReadRequest(options.format, at, null);
            case "PUT clients" -> written(at, JSON.readTree(body).path("value"));
            case "POST observations" -> new ObserveRequest(options.format, at, null);
            default -> new ExecuteRequest(path, body.length == 0 ? null : new String(body, StandardCharsets.UTF_8));
        };
        leshan.send(registration, request, ANSWER_WITHIN, answer -> answered(exchange, endpoint, at, answer),
                error -> reply(exchange, error instanceof TimeoutException ? 504 : 502, error(error.toString())));
    }

    /** Ends what is observed at a device. */
    private void forget(HttpExchange exchange, String endpoint, String path) {
        Registration registration = leshan.getRegistrationService().getByEndpoint(endpoint);
        boolean known = registration != null
                && leshan.getObservationService().cancelObservations(registration, path) > 0;
        reply(exchange, known ? 204 : 404, null);
    }

    private WriteRequest written(LwM2mPath path, JsonNode value) throws IOException {
        if (!path.isResource()) {
            throw new IllegalArgumentException(path + " is no resource");
        }
        ResourceModel known = model.getResourceModel(path.getObjectId(), path.getResourceId());
        Type type = known != null ? known.type
                : value.isBoolean() ? Type.BOOLEAN
                : value.isIntegralNumber() ? Type.INTEGER
                : value.isNumber() ? Type.FLOAT : Type.STRING;
        Object held = switch (type) {
            case BOOLEAN -> value.asBoolean();
            case INTEGER -> value.asLong();
            case FLOAT -> value.asDouble();
            case TIME -> new Date(value.asLong() * 1000);
            case STRING -> value.asText();
            case OPAQUE -> value.has("hex") ? HexFormat.of().parseHex(value.path("hex").asText())
                    : value.asText().getBytes(StandardCharsets.UTF_8);
            default -> throw new IllegalArgumentException(path + " is of the type " + type + ", which is not written here");
        };
        ContentFormat format = options.format == null ? ContentFormat.TLV : options.format;
        return new WriteRequest(WriteRequest.Mode.REPLACE, format, path,
                LwM2mSingleResource.newResource(path.getResourceId(), held, type));
    }

    private static void answered(HttpExchange exchange, String endpoint, LwM2mPath path, LwM2mResponse answer) {
        int code = answer.getCode().getCode();
        if (!answer.isSuccess()) {
            // Refusals have the numbers that they have in HTTP: 4.04 is 404.
            reply(exchange, code / 100 == 4 ? code : 502, error(answer.getCode() + " " + answer.getErrorMessage()));
        } else if (answer instanceof ReadResponse read) {
            reply(exchange, 200, message(endpoint, path, json(read.getContent())));
        } else {
            reply(exchange, 204, null);
        }
    }

    private static ObjectNode error(String why) {
        return NODES.objectNode().put("error", why);
    }

    private static void reply(HttpExchange exchange, int status, JsonNode body) {
        try {
            if (body == null) {
                exchange.sendResponseHeaders(status, -1);
                return;
            }
            byte[] bytes = JSON.writeValueAsBytes(body);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
        } catch (IOException gone) {
            // Whoever asked waits no more.
        } finally {
            exchange.close();
        }
    }

    // Values.

    private static ObjectNode message(String endpoint, LwM2mPath path, JsonNode value) {
        ObjectNode message = NODES.objectNode().put("endpoint", endpoint).put("path", path.toString());
        message.set("value", value);
        return message;
    }

    /** A value; of what has several, an object with the value of each by its number. */
    private static JsonNode json(LwM2mNode node) {
        if (node instanceof LwM2mSingleResource resource) {
            return json(resource.getValue());
        } else if (node instanceof LwM2mResourceInstance instance) {
            return json(instance.getValue());
        }
        Map<Integer, ? extends LwM2mNode> parts = node instanceof LwM2mMultipleResource resource ? resource.getInstances()
                : node instanceof LwM2mObjectInstance instance ? instance.getResources()
                : ((LwM2mObject) node).getInstances();
        ObjectNode all = NODES.objectNode();
        parts.forEach((id, part) -> all.set(id.toString(), json(part)));
        return all;
    }

    private static JsonNode json(Object value) {
        if (value instanceof byte[] bytes) {
            try {
                // Text stays readable, and keeps a marker in it as it is.
                return NODES.textNode(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
            } catch (CharacterCodingException binary) {
                return NODES.objectNode().put("hex", HexFormat.of().formatHex(bytes));
            }
        } else if (value instanceof Date date) {
            return NODES.numberNode(date.getTime() / 1000);
        } else if (value instanceof Double number && number == Math.rint(number) && Math.abs(number) < 1L << 53) {
            // Java writes large numbers with an exponent, which hides the digits of a marker.
            return NODES.numberNode(number.longValue());
        } else if (value instanceof Long || value instanceof Double || value instanceof Boolean) {
            return JSON.valueToTree(value);
        }
        return NODES.textNode(String.valueOf(value));
    }
}
