/* Devices and one subscriber on a C client, beside which Plimsoll is measured:
 *
 *     messaging-CLIENT ADDRESS DEVICES RATE SECONDS SIZE PRECISION_US
 *
 * Each device has a connection, and publishes at its own due times without awaiting what it published before. The server acknowledges
 * each message; the subscriber acknowledges each delivery where the protocol has that. Two seconds warm up.
 *
 * One thread sends for all devices, and reads where the client has no threads for that. It wakes up as Plimsoll does: what falls due
 * within the precision is sent together, and what comes so shortly before is read then. The last line says how many messages were sent,
 * acknowledged and received, and what processor time the process took for each. The line before it says how late those of the hold were
 * sent, and the first one which client it is. */
/* For `epoll_pwait2`. */
#define _GNU_SOURCE
#include "peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define WARM_UP (2 * SECOND)
/* How long acknowledgements and deliveries are awaited after the hold. */
#define DRAIN (5 * SECOND)

atomic_long acknowledged, failed, received;
static int sockets = -1;

void die(const char *what, const char *why)
{
    fprintf(stderr, "messaging peer: %s: %s\n", what, why);
    exit(1);
}

void watch(int socket, int number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)number};
    if (sockets < 0)
        sockets = epoll_create1(EPOLL_CLOEXEC);
    if (sockets < 0 || epoll_ctl(sockets, EPOLL_CTL_ADD, socket, &event) != 0)
        die("epoll", "cannot watch a socket");
}

void each_ready(int64_t patience, void (*serve)(int number))
{
    struct epoll_event ready[64];
    struct timespec time = {.tv_sec = patience / SECOND, .tv_nsec = patience % SECOND};
    int count = epoll_pwait2(sockets, ready, 64, &time, NULL);
    for (int at = 0; at < count; at++)
        serve((int)ready[at].data.u32);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static void sleep_until(int64_t due)
{
    struct timespec time = {.tv_sec = due / SECOND, .tv_nsec = due % SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
    }
}

/* Reads what comes until so shortly before something is due that it can wait. */
static void rest_until(int64_t due, int64_t precision)
{
    if (sockets >= 0)
        for (int64_t left; (left = due - precision - now()) > 0;)
            client_poll(left);
    sleep_until(due);
}

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int compared(const void *one, const void *other)
{
    int64_t left = *(const int64_t *)one, right = *(const int64_t *)other;
    return (left > right) - (left < right);
}

static int64_t number(const char *text)
{
    char *end;
    int64_t found = strtoll(text, &end, 10);
    if (*end != '\0' || found < 1)
        die(text, "is no number above zero");
    return found;
}

int main(int count, char **arguments)
{
    if (count != 7)
        die("usage", "messaging-CLIENT ADDRESS DEVICES RATE SECONDS SIZE PRECISION_US");
    int64_t devices = number(arguments[2]), rate = number(arguments[3]), seconds = number(arguments[4]);
    int64_t size = number(arguments[5]), precision = number(arguments[6]) * 1000;
    char topic[64];
    snprintf(topic, sizeof topic, "peer-%" PRId64, now());
    char *content = calloc(1, (size_t)size);
    int64_t of_hold = rate * seconds;
    int64_t *late = calloc((size_t)of_hold, sizeof *late);
    if (content == NULL || late == NULL)
        die("memory", "there is not enough");
    client_open(arguments[1], topic, (int)devices);
    /* Without it, the kernel wakes this thread up to 50 us late. */
    prctl(PR_SET_TIMERSLACK, 1);

    int64_t begin = now() + SECOND / 10, warm = begin + WARM_UP, end = warm + seconds * SECOND;
    int64_t sent = 0, in_hold = 0, before = 0;
    double used = 0;
    bool is_warm = false;
    for (int64_t at = 0;;) {
        int64_t due = begin + at * SECOND / rate;
        if (!is_warm && due >= warm) {
            rest_until(warm, precision);
            used = processor_seconds();
            before = sent;
            is_warm = true;
        }
        if (due >= end)
            break;
        /* The last one that falls due within the precision. */
        int64_t together = precision * rate / SECOND;
        rest_until(begin + (at + together) * SECOND / rate, precision);
        int64_t woken = now();
        for (; due <= woken && due < end && (is_warm || due < warm); due = begin + at * SECOND / rate) {
            int64_t sending = now();
            if (due >= warm && in_hold < of_hold)
                late[in_hold++] = sending - due;
            if (!client_publish((int)(at % devices), content, (size_t)size))
                failed++;
            sent++;
            at++;
        }
        client_poll(0);
    }
    rest_until(end, precision);
    used = processor_seconds() - used;
    int64_t sent_in_hold = sent - before;
    for (int64_t until = now() + DRAIN; now() < until;) {
        client_poll(0);
        /* The last acknowledgements come behind. */
        if (received >= sent && until > now() + SECOND / 2)
            until = now() + SECOND / 2;
        sleep_until(now() + SECOND / 1000);
    }
    client_close();

    qsort(late, (size_t)in_hold, sizeof *late, compared);
    printf("%s\n", client_name());
    printf("late by %.2f ms (p50), %.2f ms (p99)\n", (double)late[(in_hold - 1) / 2] / 1e6,
           (double)late[(int64_t)((double)(in_hold - 1) * 0.99)] / 1e6);
    printf("%" PRId64 " sent in the hold, %" PRId64 " in all, %ld acknowledged, %ld failed, %ld received, "
           "%.2f us of processor each, %.4f s in the hold\n",
           sent_in_hold, sent, acknowledged, failed, received, used * 1e6 / (double)sent_in_hold, used);
    free(late);
    free(content);
    return 0;
}
