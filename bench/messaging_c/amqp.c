/* Devices on rabbitmq-c (AMQP 0-9-1) with publisher confirms. Each device has a connection with one channel. The library has no threads and
 * reads when it is asked to: the sending thread reads confirms and deliveries when they come, frame by frame, which is what the library's
 * manual gives for channels on which more than one thing comes. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <amqp.h>
#include <amqp_tcp_socket.h>

#define CHANNEL 1
#define FRAME 131072
/* The most messages of a device that are not confirmed. */
#define WINDOW 4096

struct device {
    amqp_connection_state_t connection;
    /* The first tag that is not confirmed, the last one that was published, and which of those between were confirmed. */
    uint64_t lowest, published;
    bool is_confirmed[WINDOW];
    char key[96];
};

/* The subscriber is behind the devices. */
static struct device *all;
static int count;
/* Of the message that is coming to the subscriber. */
static uint64_t tag, rest;

static void fails(const char *what, int status)
{
    if (status != AMQP_STATUS_OK)
        die(what, amqp_error_string2(status));
}

static void answered(const char *what, amqp_rpc_reply_t reply)
{
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        die(what, amqp_error_string2(reply.library_error));
    if (reply.reply_type != AMQP_RESPONSE_NORMAL)
        die(what, "the broker refuses it");
}

static void connected(struct device *own, int number, const char *address)
{
    char *text = strdup(address);
    struct amqp_connection_info at;
    fails(address, amqp_parse_url(text, &at));
    own->connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(own->connection);
    fails(address, amqp_socket_open(socket, at.host, at.port));
    answered("login", amqp_login(own->connection, at.vhost, 1, FRAME, 0, AMQP_SASL_METHOD_PLAIN, at.user, at.password));
    amqp_channel_open(own->connection, CHANNEL);
    answered("channel", amqp_get_rpc_reply(own->connection));
    watch(amqp_get_sockfd(own->connection), number);
    free(text);
}

static void subscribe(amqp_connection_state_t connection, const char *topic)
{
    amqp_queue_declare_ok_t *made = amqp_queue_declare(connection, CHANNEL, amqp_empty_bytes, 0, 0, 1, 1, amqp_empty_table);
    answered("queue", amqp_get_rpc_reply(connection));
    amqp_bytes_t queue = amqp_bytes_malloc_dup(made->queue);
    char below[96];
    snprintf(below, sizeof below, "%s.#", topic);
    amqp_queue_bind(connection, CHANNEL, queue, amqp_cstring_bytes("amq.topic"), amqp_cstring_bytes(below), amqp_empty_table);
    answered("binding", amqp_get_rpc_reply(connection));
    amqp_basic_consume(connection, CHANNEL, queue, amqp_empty_bytes, 0, 0, 1, amqp_empty_table);
    answered("consumer", amqp_get_rpc_reply(connection));
    amqp_bytes_free(queue);
}

const char *client_name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "rabbitmq-c %s", amqp_version());
    return text;
}

void client_open(const char *address, const char *topic, int devices)
{
    count = devices;
    all = calloc((size_t)devices + 1, sizeof *all);
    connected(&all[devices], devices, address);
    subscribe(all[devices].connection, topic);
    for (int at = 0; at < devices; at++) {
        connected(&all[at], at, address);
        amqp_confirm_select(all[at].connection, CHANNEL);
        answered("confirms", amqp_get_rpc_reply(all[at].connection));
        snprintf(all[at].key, sizeof all[at].key, "%s.%d", topic, at);
        all[at].lowest = 1;
    }
}

bool client_publish(int device, const char *content, size_t size)
{
    struct device *own = &all[device];
    amqp_bytes_t body = {.len = size, .bytes = (void *)content};
    if (own->published + 1 - own->lowest >= WINDOW)
        return false;
    int status = amqp_basic_publish(own->connection, CHANNEL, amqp_cstring_bytes("amq.topic"), amqp_cstring_bytes(own->key), 0, 0,
                                    NULL, body);
    fails("publish", status);
    own->published++;
    return true;
}

/* A tag is confirmed, or all up to it that are not yet. */
static void confirmed(struct device *own, uint64_t last, bool is_multiple)
{
    if (last > own->published)
        die("broker", "it confirms what was not published");
    if (!is_multiple && last < own->lowest)
        return;
    for (uint64_t each = is_multiple ? own->lowest : last; each <= last; each++) {
        bool *is_known = &own->is_confirmed[each % WINDOW];
        acknowledged += !*is_known;
        *is_known = true;
    }
    for (; own->is_confirmed[own->lowest % WINDOW]; own->lowest++)
        own->is_confirmed[own->lowest % WINDOW] = false;
}

/* A message is there: it is acknowledged. */
static void arrived(amqp_connection_state_t connection)
{
    received++;
    fails("acknowledgement", amqp_basic_ack(connection, CHANNEL, tag, 0));
}

static void take(struct device *own, const amqp_frame_t *frame)
{
    if (frame->frame_type == AMQP_FRAME_HEADER) {
        rest = frame->payload.properties.body_size;
        if (rest == 0)
            arrived(own->connection);
    } else if (frame->frame_type == AMQP_FRAME_BODY) {
        rest -= frame->payload.body_fragment.len;
        if (rest == 0)
            arrived(own->connection);
    } else if (frame->frame_type == AMQP_FRAME_METHOD) {
        switch (frame->payload.method.id) {
        case AMQP_BASIC_DELIVER_METHOD:
            tag = ((amqp_basic_deliver_t *)frame->payload.method.decoded)->delivery_tag;
            break;
        case AMQP_BASIC_ACK_METHOD: {
            amqp_basic_ack_t *confirm = frame->payload.method.decoded;
            confirmed(own, confirm->delivery_tag, confirm->multiple);
            break;
        }
        case AMQP_BASIC_NACK_METHOD:
            failed++;
            break;
        default:
            die("broker", "it closes a connection or a channel");
        }
    }
}

static void serve(int number)
{
    struct device *own = &all[number];
    struct timeval at_once = {0};
    do {
        amqp_frame_t frame;
        int status = amqp_simple_wait_frame_noblock(own->connection, &frame, &at_once);
        if (status == AMQP_STATUS_TIMEOUT)
            break;
        fails("connection", status);
        take(own, &frame);
        amqp_maybe_release_buffers(own->connection);
    } while (amqp_frames_enqueued(own->connection) || amqp_data_in_buffer(own->connection));
}

void client_poll(int64_t patience)
{
    each_ready(patience, serve);
}

void client_close(void)
{
    for (int at = 0; at <= count; at++)
        amqp_destroy_connection(all[at].connection);
}
