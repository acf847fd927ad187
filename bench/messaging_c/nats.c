/* Devices on nats.c, with a stream in memory, which acknowledges. Each device has a connection. The library reads in a thread for each
 * connection, or in an event loop of the program (`natsOptions_SetEventLoop`), which its manual gives for many connections: here this is the
 * sending thread. So no thread is woken up for an acknowledgement or a message: both are taken from synchronous subscriptions. What is
 * published is written at once (`natsOptions_SetSendAsap`). Acknowledgements of the stream come to the subject that a message names for the
 * answer. */
/* For `memmem`. */
#define _GNU_SOURCE
#include "peer.h"

#include <nats/nats.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 5000

struct device {
    natsConnection *connection;
    natsSock socket;
    /* Whether the library has something to write. */
    bool has_output;
    natsSubscription *subscription;
    char *inbox;
    char subject[96];
};

/* The subscriber is behind the devices. */
static struct device *all;
static int count;
/* Makes what the run needs, and removes it. */
static natsConnection *controller;
static jsCtx *streams;
static const char *name;

static void fails(const char *what, natsStatus status)
{
    if (status != NATS_OK)
        die(what, nats_GetLastError(NULL) != NULL ? nats_GetLastError(NULL) : natsStatus_GetText(status));
}

static natsStatus attached(void **data, void *own, natsConnection *connection, natsSock socket)
{
    struct device *device = own;
    if (*data != NULL)
        die("connection", "it was lost");
    device->connection = connection;
    device->socket = socket;
    watch(socket, (int)(device - all));
    *data = own;
    return NATS_OK;
}

static natsStatus reads(void *own, bool starts)
{
    (void)own, (void)starts;
    return NATS_OK;
}

static natsStatus writes(void *own, bool starts)
{
    ((struct device *)own)->has_output = starts;
    return NATS_OK;
}

static natsStatus detached(void *own)
{
    (void)own;
    return NATS_OK;
}

static void write_all(struct device *own)
{
    while (own->has_output) {
        natsConnection_ProcessWriteEvent(own->connection);
        if (own->has_output)
            poll(&(struct pollfd){.fd = own->socket, .events = POLLOUT}, 1, PATIENCE_MS);
    }
}

static void connected(struct device *own, const char *address)
{
    natsOptions *options;
    fails("options", natsOptions_Create(&options));
    fails(address, natsOptions_SetURL(options, address));
    fails("options", natsOptions_SetSendAsap(options, true));
    fails("options", natsOptions_SetEventLoop(options, own, attached, reads, writes, detached));
    fails(address, natsConnection_Connect(&own->connection, options));
    natsOptions_Destroy(options);
    fails("inbox", natsInbox_Create(&own->inbox));
    fails("inbox", natsConnection_SubscribeSync(&own->subscription, own->connection, own->inbox));
    fails("inbox", natsSubscription_SetPendingLimits(own->subscription, -1, -1));
    write_all(own);
}

const char *client_name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "nats.c %s", nats_GetVersion());
    return text;
}

static void make_stream(const char *address, const char *topic)
{
    fails(address, natsConnection_ConnectTo(&controller, address));
    fails("JetStream", natsConnection_JetStream(&streams, controller, NULL));
    char below[96];
    snprintf(below, sizeof below, "%s.>", topic);
    const char *subjects[] = {below};
    jsStreamConfig config;
    fails("options", jsStreamConfig_Init(&config));
    config.Name = topic;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_MemoryStorage;
    fails(topic, js_AddStream(NULL, streams, &config, NULL, NULL));
}

void client_open(const char *address, const char *topic, int devices)
{
    name = topic;
    count = devices;
    all = calloc((size_t)devices + 1, sizeof *all);
    make_stream(address, topic);
    connected(&all[devices], address);
    jsConsumerConfig config;
    fails("options", jsConsumerConfig_Init(&config));
    config.DeliverSubject = all[devices].inbox;
    config.DeliverPolicy = js_DeliverAll;
    config.AckPolicy = js_AckExplicit;
    config.MaxAckPending = -1;
    fails(topic, js_AddConsumer(NULL, streams, topic, &config, NULL, NULL));
    for (int at = 0; at < devices; at++) {
        connected(&all[at], address);
        snprintf(all[at].subject, sizeof all[at].subject, "%s.%d", topic, at);
    }
}

bool client_publish(int device, const char *content, size_t size)
{
    struct device *own = &all[device];
    natsStatus status = natsConnection_PublishRequest(own->connection, own->subject, own->inbox, content, (int)size);
    write_all(own);
    return status == NATS_OK;
}

/* Whether an answer of the stream says that it has the message. */
static bool is_kept(natsMsg *answer)
{
    const char *said = natsMsg_GetData(answer);
    return said != NULL && memmem(said, (size_t)natsMsg_GetDataLength(answer), "\"seq\":", 6) != NULL;
}

static void serve(int number)
{
    struct device *own = &all[number];
    natsConnection_ProcessReadEvent(own->connection);
    natsMsg *message;
    natsStatus status;
    while ((status = natsSubscription_NextMsg(&message, own->subscription, 0)) == NATS_OK) {
        if (number == count) {
            received++;
            fails("acknowledgement", natsConnection_Publish(own->connection, natsMsg_GetReply(message), NULL, 0));
        } else if (is_kept(message)) {
            acknowledged++;
        } else {
            failed++;
        }
        natsMsg_Destroy(message);
    }
    if (status == NATS_NO_RESPONDERS)
        failed++;
    else if (status != NATS_TIMEOUT)
        fails("connection", status);
    write_all(own);
}

void client_poll(int64_t patience)
{
    each_ready(patience, serve);
}

void client_close(void)
{
    js_DeleteStream(streams, name, NULL, NULL);
}
