/* The floor of the abstract gateway: the simplest loop that polls devices, and the simplest one that answers as they do.
 * No name service, no log, no work, no JSON: what is left is what the calls cost the kernel.
 *
 *   gateway_floor DEVICES SECONDS own|one all|turn
 *
 * Each device has a listening socket of its own, or all share one. The polling loop waits for all devices at once, as a
 * cooperative dispatcher does, or for one after the other in turn, as a serial one does. For each event it calls `status`
 * and `next_event` in the bytes of `plimsoll gateway`; each device always has an event. The devices run on processor 0 and
 * the polling loop on processor 1. Printed are events/s, and the processor time of both sides per event in microseconds.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READY 256

static const char STATUS[] = "{\"name\":\"status\",\"args\":[]}\n";
static const char NEXT_EVENT[] = "{\"name\":\"next_event\",\"args\":[]}\n";
static const char SOMETHING[] = "{\"result\":1}\n";
static const char EVENT[] = "{\"result\":\"a1b2-17-123456\"}\n";

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void watch(int poll, int fd, unsigned mark) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (unsigned long)mark << 32 | (unsigned)fd};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static void say(int fd, const char *words, size_t length) {
    if (send(fd, words, length, MSG_NOSIGNAL) != (ssize_t)length) fail("send");
}

static void keep_to(int processor) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    /* Where there is one processor, both share it. */
    sched_setaffinity(0, sizeof one, &one);
}

static double processor_seconds(int who) {
    struct rusage used;
    getrusage(who, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* Answers until it is killed. */
static void answer(const int *listeners, int count) {
    int poll = epoll_create1(0), one = 1;
    for (int i = 0; i < count; i++) watch(poll, listeners[i], 1);
    for (;;) {
        struct epoll_event ready[READY];
        int found = epoll_wait(poll, ready, READY, -1);
        for (int i = 0; i < found; i++) {
            int fd = (int)(unsigned)ready[i].data.u64;
            if (ready[i].data.u64 >> 32) {
                int device = accept(fd, NULL, NULL);
                if (device < 0) fail("accept");
                setsockopt(device, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                watch(poll, device, 0);
                continue;
            }
            char call[512];
            ssize_t length = recv(fd, call, sizeof call, 0);
            if (length <= 0) {
                close(fd);
            } else if (length == sizeof STATUS - 1) {
                say(fd, SOMETHING, sizeof SOMETHING - 1);
            } else {
                say(fd, EVENT, sizeof EVENT - 1);
            }
        }
    }
}

/* Takes an answer that has come and makes the next call; whether an event was fetched. A call is on its way as a whole,
 * and so is its answer: they are small, and one is awaited before the other. */
static int take(int fd) {
    char answer[512];
    ssize_t length = recv(fd, answer, sizeof answer, 0);
    if (length <= 0) fail("recv");
    if (length == sizeof SOMETHING - 1) {
        say(fd, NEXT_EVENT, sizeof NEXT_EVENT - 1);
        return 0;
    }
    say(fd, STATUS, sizeof STATUS - 1);
    return 1;
}

static long poll_all(const int *devices, int count, double end) {
    int poll = epoll_create1(0);
    long events = 0;
    for (int i = 0; i < count; i++) {
        watch(poll, devices[i], 0);
        say(devices[i], STATUS, sizeof STATUS - 1);
    }
    while (now() < end) {
        struct epoll_event ready[READY];
        int found = epoll_wait(poll, ready, READY, -1);
        for (int i = 0; i < found; i++) events += take((int)(unsigned)ready[i].data.u64);
    }
    return events;
}

static long poll_in_turn(const int *devices, int count, double end) {
    long events = 0;
    char answer[512];
    for (int i = 0; now() < end; i = (i + 1) % count, events++) {
        say(devices[i], STATUS, sizeof STATUS - 1);
        if (recv(devices[i], answer, sizeof answer, 0) <= 0) fail("recv");
        say(devices[i], NEXT_EVENT, sizeof NEXT_EVENT - 1);
        if (recv(devices[i], answer, sizeof answer, 0) <= 0) fail("recv");
    }
    return events;
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: gateway_floor DEVICES SECONDS own|one all|turn\n");
        return 2;
    }
    int devices = atoi(arguments[1]), one = 1;
    int listening = strcmp(arguments[3], "one") ? devices : 1;
    int *listeners = calloc(devices, sizeof *listeners), *connections = calloc(devices, sizeof *connections);
    struct sockaddr_in *places = calloc(devices, sizeof *places);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < listening; i++) {
        socklen_t length = sizeof places[i];
        places[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        listeners[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(listeners[i], (struct sockaddr *)&places[i], length) || listen(listeners[i], 1024)) fail("listen");
        getsockname(listeners[i], (struct sockaddr *)&places[i], &length);
    }
    int answering = fork();
    if (answering == 0) {
        keep_to(0);
        answer(listeners, listening);
    }
    keep_to(1);
    for (int i = 0; i < devices; i++) {
        connections[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(connections[i], (struct sockaddr *)&places[i % listening], sizeof places[0])) fail("connect");
        setsockopt(connections[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    double begun = now(), before = processor_seconds(RUSAGE_SELF);
    double end = begun + atof(arguments[2]);
    long events = strcmp(arguments[4], "turn") ? poll_all(connections, devices, end) : poll_in_turn(connections, devices, end);
    double took = now() - begun, polling = processor_seconds(RUSAGE_SELF) - before;
    kill(answering, SIGKILL);
    waitpid(answering, NULL, 0);
    printf("%.0f events/s, %.2f us of CPU an event polling, %.2f us answering\n", events / took, polling / events * 1e6,
           processor_seconds(RUSAGE_CHILDREN) / events * 1e6);
}
