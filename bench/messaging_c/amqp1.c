/* Devices on Qpid Proton (AMQP 1.0) at RabbitMQ before version 4, whose topics begin with `/topic/`. Each device has a connection with one
 * link. This is the library's `pn_connection_driver`, which leaves sockets to the program and needs no further thread: the sending thread
 * writes a message at once, and reads dispositions and deliveries when they come. The content is encoded once. */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <proton/version.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How many messages the subscriber lets come at most before it gives more credit, as the client in Go does. */
#define CREDIT 1000
#define PATIENCE_MS 10000

struct device {
    int socket;
    pn_connection_driver_t driver;
    pn_link_t *link;
    uint64_t sent;
};

/* The subscriber is behind the devices. */
static struct device *all;
static int count;
static char *encoded;
static size_t encoded_size;

static void encode(const char *content, size_t size)
{
    pn_message_t *message = pn_message();
    pn_data_put_binary(pn_message_body(message), pn_bytes(size, content));
    /* The body is a section of data, not a value. */
    pn_message_set_inferred(message, true);
    encoded_size = size + 256;
    encoded = malloc(encoded_size);
    if (encoded == NULL || pn_message_encode(message, encoded, &encoded_size) != 0)
        die("message", "cannot be encoded");
    pn_message_free(message);
}

static void write_all(struct device *own)
{
    for (pn_bytes_t rest; (rest = pn_connection_driver_write_buffer(&own->driver)).size > 0;) {
        ssize_t written = send(own->socket, rest.start, rest.size, MSG_NOSIGNAL);
        if (written > 0) {
            pn_connection_driver_write_done(&own->driver, (size_t)written);
        } else if (errno == EAGAIN) {
            poll(&(struct pollfd){.fd = own->socket, .events = POLLOUT}, 1, PATIENCE_MS);
        } else {
            die("connection", strerror(errno));
        }
    }
}

/* A link has news: what became of a message, or one that came. */
static void look(pn_delivery_t *delivery)
{
    pn_link_t *link = pn_delivery_link(delivery);
    if (pn_link_is_sender(link)) {
        if (!pn_delivery_updated(delivery))
            return;
        if (pn_delivery_remote_state(delivery) == PN_ACCEPTED)
            acknowledged++;
        else
            failed++;
        pn_delivery_settle(delivery);
    } else if (pn_delivery_readable(delivery) && !pn_delivery_partial(delivery)) {
        received++;
        pn_delivery_update(delivery, PN_ACCEPTED);
        pn_delivery_settle(delivery);
        if (pn_link_credit(link) < CREDIT / 2)
            pn_link_flow(link, CREDIT - pn_link_credit(link));
    }
}

static _Noreturn void ended(const char *what, pn_condition_t *why)
{
    const char *said = pn_condition_get_description(why);
    die(what, said != NULL ? said : "the broker ends it");
}

static void take_events(struct device *own)
{
    for (pn_event_t *event; (event = pn_connection_driver_next_event(&own->driver)) != NULL;) {
        switch (pn_event_type(event)) {
        case PN_DELIVERY:
            look(pn_event_delivery(event));
            break;
        case PN_TRANSPORT_ERROR:
            ended("connection", pn_transport_condition(own->driver.transport));
        case PN_CONNECTION_REMOTE_CLOSE:
            ended("connection", pn_connection_remote_condition(own->driver.connection));
        case PN_SESSION_REMOTE_CLOSE:
            ended("session", pn_session_remote_condition(pn_event_session(event)));
        case PN_LINK_REMOTE_CLOSE:
            ended("link", pn_link_remote_condition(pn_event_link(event)));
        default:
            break;
        }
    }
}

static void serve(int number)
{
    struct device *own = &all[number];
    pn_rwbytes_t room = pn_connection_driver_read_buffer(&own->driver);
    if (room.size > 0) {
        ssize_t came = recv(own->socket, room.start, room.size, 0);
        if (came == 0 || (came < 0 && errno != EAGAIN))
            die("connection", came == 0 ? "the broker closes it" : strerror(errno));
        if (came > 0)
            pn_connection_driver_read_done(&own->driver, (size_t)came);
    }
    take_events(own);
    write_all(own);
}

static char user[64], password[64], host[128], port[16];

static void parse(const char *address)
{
    if (sscanf(address, "amqp://%63[^:]:%63[^@]@%127[^:]:%15[0-9]", user, password, host, port) != 4)
        die(address, "is no amqp://USER:PASSWORD@HOST:PORT");
}

static int dialled(void)
{
    struct addrinfo *found, wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    if (getaddrinfo(host, port, &wanted, &found) != 0)
        die(host, "is not known");
    int made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (made < 0 || connect(made, found->ai_addr, found->ai_addrlen) != 0)
        die(host, strerror(errno));
    freeaddrinfo(found);
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(made, F_SETFL, fcntl(made, F_GETFL) | O_NONBLOCK);
    return made;
}

/* A connection whose link is open, and has credit where it sends. */
static void connected(int number, const char *target)
{
    struct device *own = &all[number];
    own->socket = dialled();
    pn_connection_t *connection = pn_connection();
    pn_transport_t *transport = pn_transport();
    char name[64];
    snprintf(name, sizeof name, "peer-%d", number);
    pn_connection_set_container(connection, name);
    pn_connection_set_hostname(connection, "localhost");
    pn_connection_set_user(connection, user);
    pn_connection_set_password(connection, password);
    pn_sasl_allowed_mechs(pn_sasl(transport), "PLAIN");
    pn_sasl_set_allow_insecure_mechs(pn_sasl(transport), true);
    if (pn_connection_driver_init(&own->driver, connection, transport) != 0)
        die("Proton", "no connection");
    pn_connection_open(connection);
    pn_session_t *session = pn_session(connection);
    pn_session_open(session);
    if (number < count) {
        own->link = pn_sender(session, "messages");
        pn_terminus_set_address(pn_link_target(own->link), target);
        pn_terminus_set_address(pn_link_source(own->link), name);
        pn_link_set_snd_settle_mode(own->link, PN_SND_UNSETTLED);
    } else {
        own->link = pn_receiver(session, "messages");
        pn_terminus_set_address(pn_link_source(own->link), target);
        pn_terminus_set_address(pn_link_target(own->link), name);
    }
    pn_link_set_rcv_settle_mode(own->link, PN_RCV_FIRST);
    pn_link_open(own->link);
    if (number == count)
        pn_link_flow(own->link, CREDIT);
    take_events(own);
    write_all(own);
    while ((pn_link_state(own->link) & PN_REMOTE_ACTIVE) == 0 || (number < count && pn_link_credit(own->link) == 0)) {
        if (poll(&(struct pollfd){.fd = own->socket, .events = POLLIN}, 1, PATIENCE_MS) != 1)
            die(target, "the broker does not open the link");
        serve(number);
    }
    watch(own->socket, number);
}

const char *client_name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "qpid-proton-c %d.%d.%d", PN_VERSION_MAJOR, PN_VERSION_MINOR, PN_VERSION_POINT);
    return text;
}

void client_open(const char *address, const char *topic, int devices)
{
    parse(address);
    count = devices;
    all = calloc((size_t)devices + 1, sizeof *all);
    char target[128];
    snprintf(target, sizeof target, "/topic/%s.#", topic);
    connected(devices, target);
    for (int at = 0; at < devices; at++) {
        snprintf(target, sizeof target, "/topic/%s.%d", topic, at);
        connected(at, target);
    }
}

bool client_publish(int device, const char *content, size_t size)
{
    struct device *own = &all[device];
    if (encoded == NULL)
        encode(content, size);
    if (pn_link_credit(own->link) <= 0)
        return false;
    uint64_t tag = own->sent++;
    pn_delivery(own->link, pn_dtag((const char *)&tag, sizeof tag));
    pn_link_send(own->link, encoded, encoded_size);
    pn_link_advance(own->link);
    write_all(own);
    return true;
}

void client_poll(int64_t patience)
{
    each_ready(patience, serve);
}

void client_close(void)
{
    for (int at = 0; at <= count; at++) {
        pn_connection_driver_destroy(&all[at].driver);
        close(all[at].socket);
    }
    free(encoded);
}
