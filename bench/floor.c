/* The floor: the simplest program that publishes pre-encoded frames, and does nothing else. No tool that measures can
 * be cheaper than its own work; this is what the kernel alone costs.
 *
 *   floor PORT CONNECTIONS MESSAGES QOS SIZE BATCH [RATE]
 *
 * BATCH messages go in one write; at QoS 1 a connection's acknowledgements are awaited before its next write. With
 * RATE (messages/s), writes are paced by ticks of 1 ms. CONNECTIONS idle for MESSAGES seconds when QOS is "idle".
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void write_all(int fd, const unsigned char *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t n = send(fd, bytes + done, length - done, MSG_NOSIGNAL);
        if (n <= 0) fail("send");
        done += n;
    }
}

static void read_all(int fd, size_t length) {
    static unsigned char bytes[4096];
    while (length) {
        ssize_t n = recv(fd, bytes, length < sizeof bytes ? length : sizeof bytes, 0);
        if (n <= 0) fail("recv");
        length -= n;
    }
}

int main(int count, char **arguments) {
    if (count < 7) {
        fprintf(stderr, "usage: floor PORT CONNECTIONS MESSAGES QOS|idle SIZE BATCH [RATE]\n");
        return 2;
    }
    int port = atoi(arguments[1]), connections = atoi(arguments[2]), idle = !strcmp(arguments[4], "idle");
    long messages = atol(arguments[3]), rate = count > 7 ? atol(arguments[7]) : 0;
    int qos = atoi(arguments[4]), size = atoi(arguments[5]), batch = atoi(arguments[6]);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int *fds = calloc(connections, sizeof *fds);
    unsigned char *owed = calloc(connections, 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0, one = 1; i < connections; i++) {
        char id[16];
        unsigned char frame[32] = {0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0};
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        int length = snprintf(id, sizeof id, "floor-%d", i);
        frame[1] = 12 + length;
        frame[13] = length;
        memcpy(frame + 14, id, length);
        write_all(fds[i], frame, 14 + length);
        read_all(fds[i], 4);
    }
    if (idle) {
        sleep(messages);
        return 0;
    }
    /* The topic is as long as Plimsoll's default one. */
    const char topic[] = "plimsoll/0123456789ab/00";
    int remaining = 2 + (int)strlen(topic) + (qos ? 2 : 0) + size, at = 0;
    unsigned char *frames = calloc(batch, remaining + 5);
    for (int i = 0; i < batch; i++) {
        frames[at++] = 0x30 | qos << 1;
        for (int rest = remaining; ; rest >>= 7) {
            frames[at++] = (rest & 127) | (rest > 127 ? 128 : 0);
            if (rest <= 127) break;
        }
        frames[at++] = 0;
        frames[at++] = strlen(topic);
        memcpy(frames + at, topic, strlen(topic));
        at += strlen(topic);
        if (qos) {
            frames[at++] = 0;
            frames[at++] = i + 1;
        }
        memset(frames + at, '.', size);
        at += size;
    }
    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC, &tick);
    long sent = 0, allowed = rate ? 0 : messages;
    for (int next = 0, c = 0; sent < messages; next++, c = next % connections) {
        while (rate && sent + batch > allowed) {
            tick.tv_nsec += 1000000;
            if (tick.tv_nsec >= 1000000000) tick.tv_sec++, tick.tv_nsec -= 1000000000;
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &tick, NULL);
            allowed += rate / 1000;
        }
        if (owed[c]) read_all(fds[c], 4 * batch);
        write_all(fds[c], frames, at);
        owed[c] = qos;
        sent += batch;
    }
    for (int c = 0; c < connections; c++)
        if (owed[c]) read_all(fds[c], 4 * batch);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("%.3f CPU s per million messages, %ld kB\n", cpu / sent * 1e6, used.ru_maxrss);
}
