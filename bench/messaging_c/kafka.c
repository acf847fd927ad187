/* Devices on librdkafka, where the leader acknowledges when all replicas have the record. Each device is a producer with a connection of
 * its own, as a device is. Settings are those that the library's manual gives for low latency: `linger.ms` of zero, no idempotence, as
 * with Plimsoll, and no delay of small writes. Delivery reports and records are taken when the sending thread is awake, so that nobody is
 * woken up for them. The library reads and writes in threads of its own. */
#include "peer.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As many as Plimsoll's topics have. */
#define PARTITIONS 8
#define PATIENCE_MS 15000
#define BATCH 1000

struct device {
    rd_kafka_t *producer;
    rd_kafka_topic_t *topic;
    char key[16];
    size_t key_size;
    int partition;
};

static struct device *all;
static int count, next;
static rd_kafka_t *subscriber;
static rd_kafka_queue_t *records;
static const char *name;

static void set(rd_kafka_conf_t *settings, const char *key, const char *value)
{
    char why[512];
    if (rd_kafka_conf_set(settings, key, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        die(key, why);
}

static void reported(rd_kafka_t *producer, const rd_kafka_message_t *message, void *own)
{
    (void)producer, (void)own;
    if (message->err)
        failed++;
    else
        acknowledged++;
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *settings, const char *address)
{
    char why[512];
    set(settings, "bootstrap.servers", address);
    set(settings, "socket.nagle.disable", "true");
    rd_kafka_t *made = rd_kafka_new(type, settings, why, sizeof why);
    if (made == NULL)
        die("librdkafka", why);
    return made;
}

static void fails(const char *what, rd_kafka_resp_err_t error)
{
    if (error)
        die(what, rd_kafka_err2str(error));
}

static void make_topic(rd_kafka_t *by)
{
    char why[512];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, PARTITIONS, 1, why, sizeof why);
    if (topic == NULL)
        die(name, why);
    rd_kafka_queue_t *answers = rd_kafka_queue_new(by);
    rd_kafka_CreateTopics(by, &topic, 1, NULL, answers);
    rd_kafka_event_t *answer = rd_kafka_queue_poll(answers, PATIENCE_MS);
    if (answer == NULL)
        die(name, "the broker does not make the topic");
    fails(name, rd_kafka_event_error(answer));
    size_t made;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(answer), &made);
    if (made == 1)
        fails(name, rd_kafka_topic_result_error(results[0]));
    rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(answers);
    rd_kafka_NewTopic_destroy(topic);
}

static void remove_topic(rd_kafka_t *by)
{
    rd_kafka_DeleteTopic_t *topic = rd_kafka_DeleteTopic_new(name);
    rd_kafka_queue_t *answers = rd_kafka_queue_new(by);
    rd_kafka_DeleteTopics(by, &topic, 1, NULL, answers);
    rd_kafka_event_t *answer = rd_kafka_queue_poll(answers, PATIENCE_MS);
    if (answer != NULL)
        rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(answers);
    rd_kafka_DeleteTopic_destroy(topic);
}

const char *client_name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "librdkafka %s", rd_kafka_version_str());
    return text;
}

void client_open(const char *address, const char *topic, int devices)
{
    name = topic;
    rd_kafka_conf_t *settings = rd_kafka_conf_new();
    set(settings, "group.id", topic);
    set(settings, "enable.auto.commit", "false");
    subscriber = client(RD_KAFKA_CONSUMER, settings, address);
    make_topic(subscriber);
    rd_kafka_poll_set_consumer(subscriber);
    /* The topic is new: all that it has is ours. */
    rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int partition = 0; partition < PARTITIONS; partition++)
        rd_kafka_topic_partition_list_add(partitions, topic, partition)->offset = 0;
    fails("assign", rd_kafka_assign(subscriber, partitions));
    rd_kafka_topic_partition_list_destroy(partitions);
    records = rd_kafka_queue_get_consumer(subscriber);

    count = devices;
    all = calloc((size_t)devices, sizeof *all);
    for (int at = 0; at < devices; at++) {
        settings = rd_kafka_conf_new();
        set(settings, "acks", "all");
        set(settings, "linger.ms", "0");
        set(settings, "enable.idempotence", "false");
        set(settings, "max.in.flight.requests.per.connection", "5");
        set(settings, "compression.type", "none");
        rd_kafka_conf_set_dr_msg_cb(settings, reported);
        struct device *own = &all[at];
        own->producer = client(RD_KAFKA_PRODUCER, settings, address);
        own->topic = rd_kafka_topic_new(own->producer, topic, NULL);
        if (own->topic == NULL)
            die(topic, rd_kafka_err2str(rd_kafka_last_error()));
        own->key_size = (size_t)snprintf(own->key, sizeof own->key, "%d", at);
        own->partition = at % PARTITIONS;
    }
}

bool client_publish(int device, const char *content, size_t size)
{
    struct device *own = &all[device];
    int refused = rd_kafka_produce(own->topic, own->partition, RD_KAFKA_MSG_F_COPY, (void *)content, size, own->key,
                                   own->key_size, NULL);
    /* What was reported of earlier messages. */
    rd_kafka_poll(own->producer, 0);
    return refused == 0;
}

void client_poll(int64_t patience)
{
    (void)patience;
    static rd_kafka_message_t *batch[BATCH];
    ssize_t came = rd_kafka_consume_batch_queue(records, 0, batch, BATCH);
    for (ssize_t at = 0; at < came; at++) {
        if (!batch[at]->err)
            received++;
        rd_kafka_message_destroy(batch[at]);
    }
    /* In turn, for those that publish no more. */
    rd_kafka_poll(all[next].producer, 0);
    next = (next + 1) % count;
}

void client_close(void)
{
    for (int at = 0; at < count; at++) {
        rd_kafka_flush(all[at].producer, PATIENCE_MS);
        rd_kafka_topic_destroy(all[at].topic);
    }
    remove_topic(all[0].producer);
    /* Producers end with the process: to close each in order takes long. */
}
