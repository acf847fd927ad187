/* Devices on nats.c, with a stream in memory, which acknowledges (`js_PublishAsync`). Each device has a connection. Settings are those that
 * the library's manual gives for low latency and many connections: what is published is written at once, and one thread calls back for all
 * subscriptions. The library has a reading thread for each connection. */
#include "peer.h"

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 5000

struct device {
    natsConnection *connection;
    jsCtx *stream;
    char subject[96];
    long sent;
};

static struct device *all;
static int count;
static natsConnection *subscriber;
static jsCtx *of_subscriber;
static natsSubscription *subscription;
static const char *name;

static void fails(const char *what, natsStatus status)
{
    if (status != NATS_OK)
        die(what, nats_GetLastError(NULL) != NULL ? nats_GetLastError(NULL) : natsStatus_GetText(status));
}

static void came(natsConnection *connection, natsSubscription *of, natsMsg *message, void *own)
{
    (void)connection, (void)of, (void)own;
    received++;
    natsMsg_Ack(message, NULL);
    natsMsg_Destroy(message);
}

static void refused(jsCtx *stream, jsPubAckErr *error, void *own)
{
    (void)stream, (void)error, (void)own;
    failed++;
}

static void connected(natsConnection **connection, jsCtx **stream, const char *address)
{
    natsOptions *options;
    fails("options", natsOptions_Create(&options));
    fails(address, natsOptions_SetURL(options, address));
    fails("options", natsOptions_SetSendAsap(options, true));
    fails("options", natsOptions_UseGlobalMessageDelivery(options, true));
    fails(address, natsConnection_Connect(connection, options));
    natsOptions_Destroy(options);
    jsOptions of_stream;
    fails("options", jsOptions_Init(&of_stream));
    of_stream.PublishAsync.ErrHandler = refused;
    fails("JetStream", natsConnection_JetStream(stream, *connection, &of_stream));
}

const char *client_name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "nats.c %s", nats_GetVersion());
    return text;
}

void client_open(const char *address, const char *topic, int devices)
{
    name = topic;
    fails("nats.c", nats_Open(-1));
    fails("nats.c", nats_SetMessageDeliveryPoolSize(1));
    connected(&subscriber, &of_subscriber, address);
    char below[96];
    snprintf(below, sizeof below, "%s.>", topic);
    const char *subjects[] = {below};
    jsStreamConfig config;
    fails("options", jsStreamConfig_Init(&config));
    config.Name = topic;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_MemoryStorage;
    fails(topic, js_AddStream(NULL, of_subscriber, &config, NULL, NULL));
    jsSubOptions options;
    fails("options", jsSubOptions_Init(&options));
    options.ManualAck = true;
    options.Config.DeliverPolicy = js_DeliverNew;
    options.Config.MaxAckPending = -1;
    fails(below, js_Subscribe(&subscription, of_subscriber, below, came, NULL, NULL, &options, NULL));
    fails(below, natsSubscription_SetPendingLimits(subscription, -1, -1));

    count = devices;
    all = calloc((size_t)devices, sizeof *all);
    for (int at = 0; at < devices; at++) {
        connected(&all[at].connection, &all[at].stream, address);
        snprintf(all[at].subject, sizeof all[at].subject, "%s.%d", topic, at);
    }
}

bool client_publish(int device, const char *content, size_t size)
{
    struct device *own = &all[device];
    if (js_PublishAsync(own->stream, own->subject, content, (int)size, NULL) != NATS_OK)
        return false;
    own->sent++;
    return true;
}

void client_poll(int64_t patience)
{
    (void)patience;
    /* The library's threads do it. */
}

void client_close(void)
{
    jsPubOptions patience;
    fails("options", jsPubOptions_Init(&patience));
    patience.MaxWait = PATIENCE_MS;
    long sent = 0, waiting = 0;
    for (int at = 0; at < count; at++) {
        js_PublishAsyncComplete(all[at].stream, &patience);
        natsMsgList pending = {0};
        if (js_PublishAsyncGetPendingList(&pending, all[at].stream) == NATS_OK) {
            waiting += pending.Count;
            natsMsgList_Destroy(&pending);
        }
        sent += all[at].sent;
    }
    acknowledged = sent - waiting - failed;
    js_DeleteStream(of_subscriber, name, NULL, NULL);
}
