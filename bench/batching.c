/* Whether many sends in one system call are cheaper than one call each: the same paced load by send(2) and recv(2), or by
 * io_uring(7).
 *
 *   batching PORT CONNECTIONS MESSAGES RATE SIZE each|ring
 *
 * Every millisecond those messages go out that are due (QoS 1), each over the next connection, and the acknowledgements that
 * have come are read. `ring` hands all sends and receives of a tick to the kernel with one call. Prints the processor time of
 * the process in seconds a million messages, and how many were acknowledged.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 4096, ACKNOWLEDGEMENT = 4, TICK = 1000000 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* The rings that this process and the kernel share. */
static struct {
    int fd;
    unsigned *submit_tail, *submit_mask, *submit_array, *complete_head, *complete_tail, *complete_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
    unsigned queued;
} ring;

static void open_ring(void) {
    /* One process submits, and completions are taken by it alone: the cheapest mode. */
    struct io_uring_params found = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    ring.fd = syscall(SYS_io_uring_setup, ENTRIES, &found);
    if (ring.fd < 0) fail("io_uring_setup");
    size_t submit = found.sq_off.array + found.sq_entries * sizeof(unsigned);
    size_t complete = found.cq_off.cqes + found.cq_entries * sizeof(struct io_uring_cqe);
    char *shared = mmap(NULL, submit > complete ? submit : complete, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
                        IORING_OFF_SQ_RING);
    ring.entries = mmap(NULL, found.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        ring.fd, IORING_OFF_SQES);
    if (shared == MAP_FAILED || ring.entries == MAP_FAILED || !(found.features & IORING_FEAT_SINGLE_MMAP)) fail("mmap");
    ring.submit_tail = (unsigned *)(shared + found.sq_off.tail);
    ring.submit_mask = (unsigned *)(shared + found.sq_off.ring_mask);
    ring.submit_array = (unsigned *)(shared + found.sq_off.array);
    ring.complete_head = (unsigned *)(shared + found.cq_off.head);
    ring.complete_tail = (unsigned *)(shared + found.cq_off.tail);
    ring.complete_mask = (unsigned *)(shared + found.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(shared + found.cq_off.cqes);
}

static void queue(int operation, int fd, void *bytes, size_t length, unsigned long name) {
    unsigned at = (*ring.submit_tail + ring.queued) & *ring.submit_mask;
    struct io_uring_sqe *entry = &ring.entries[at];
    memset(entry, 0, sizeof *entry);
    entry->opcode = operation;
    entry->fd = fd;
    entry->addr = (unsigned long)bytes;
    entry->len = length;
    entry->msg_flags = operation == IORING_OP_SEND ? MSG_NOSIGNAL : 0;
    entry->user_data = name;
    ring.submit_array[at] = at;
    ring.queued++;
}

static void submit(void) {
    __atomic_store_n(ring.submit_tail, *ring.submit_tail + ring.queued, __ATOMIC_RELEASE);
    long done = syscall(SYS_io_uring_enter, ring.fd, ring.queued, 0, IORING_ENTER_GETEVENTS, NULL, 0);
    if (done != (long)ring.queued) fail("io_uring_enter");
    ring.queued = 0;
}

int main(int count, char **arguments) {
    if (count < 7) {
        fprintf(stderr, "usage: batching PORT CONNECTIONS MESSAGES RATE SIZE each|ring\n");
        return 2;
    }
    int port = atoi(arguments[1]), connections = atoi(arguments[2]), size = atoi(arguments[5]);
    long messages = atol(arguments[3]), rate = atol(arguments[4]);
    int by_ring = !strcmp(arguments[6], "ring");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int *fds = calloc(connections, sizeof *fds);
    for (int i = 0, one = 1; i < connections; i++) {
        char id[16];
        unsigned char frame[32] = {0x10, 0, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0}, answer[4];
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        int length = snprintf(id, sizeof id, "batch-%d", i);
        frame[1] = 12 + length;
        frame[13] = length;
        memcpy(frame + 14, id, length);
        if (send(fds[i], frame, 14 + length, MSG_NOSIGNAL) < 0 || recv(fds[i], answer, 4, MSG_WAITALL) != 4) fail("CONNECT");
    }
    /* The topic is as long as Plimsoll's default one. */
    const char topic[] = "plimsoll/0123456789ab/00";
    unsigned char *frame = calloc(1, size + 64);
    int at = 0;
    frame[at++] = 0x32;
    for (int rest = 4 + (int)strlen(topic) + size;; rest >>= 7) {
        frame[at++] = (rest & 127) | (rest > 127 ? 128 : 0);
        if (rest <= 127) break;
    }
    frame[at++] = 0;
    frame[at++] = strlen(topic);
    memcpy(frame + at, topic, strlen(topic));
    at += strlen(topic);
    frame[at + 1] = 1;
    at += 2 + size;

    /* Of each connection: messages without an acknowledgement, and room for what comes. */
    int *owed = calloc(connections, sizeof *owed), *asked = calloc(connections, sizeof *asked);
    unsigned char *room = calloc(connections, 64);
    if (by_ring) open_ring();
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC, &tick);
    long sent = 0, allowed = 0, acknowledged = 0, first_waiting = 0;
    for (long idle = 0; acknowledged < messages && idle < 5000; idle++) {
        tick.tv_nsec += TICK;
        if (tick.tv_nsec >= 1000000000) tick.tv_sec++, tick.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &tick, NULL);
        allowed += rate / 1000;
        long had = acknowledged;
        if (by_ring) {
            for (; sent < allowed && sent < messages; sent++) {
                int c = sent % connections;
                queue(IORING_OP_SEND, fds[c], frame, at, c);
                owed[c]++;
                if (!asked[c]) queue(IORING_OP_RECV, fds[c], room + c * 64, 64, c | 1L << 32), asked[c] = 1;
            }
            submit();
            unsigned head = *ring.complete_head, tail = __atomic_load_n(ring.complete_tail, __ATOMIC_ACQUIRE);
            for (; head != tail; head++) {
                struct io_uring_cqe *done = &ring.completions[head & *ring.complete_mask];
                int c = done->user_data & 0xffffffff;
                if (done->res <= 0) errno = -done->res, fail("completion");
                if (!(done->user_data >> 32)) continue;
                acknowledged += done->res / ACKNOWLEDGEMENT;
                owed[c] -= done->res / ACKNOWLEDGEMENT;
                asked[c] = 0;
                if (owed[c] > 0) queue(IORING_OP_RECV, fds[c], room + c * 64, 64, c | 1L << 32), asked[c] = 1;
            }
            __atomic_store_n(ring.complete_head, head, __ATOMIC_RELEASE);
        } else {
            /* What was sent in earlier ticks is mostly acknowledged: no call is needed to find out which. */
            for (; first_waiting < sent; first_waiting++) {
                int c = first_waiting % connections;
                ssize_t n = recv(fds[c], room, 64, MSG_DONTWAIT);
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                    if (owed[c] > 0) break;
                    continue;
                }
                if (n <= 0) fail("recv");
                acknowledged += n / ACKNOWLEDGEMENT;
                owed[c] -= n / ACKNOWLEDGEMENT;
            }
            for (; sent < allowed && sent < messages; sent++) {
                int c = sent % connections;
                if (send(fds[c], frame, at, MSG_NOSIGNAL) != at) fail("send");
                owed[c]++;
            }
        }
        if (acknowledged > had) idle = 0;
    }
    getrusage(RUSAGE_SELF, &after);
    double used = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) + (after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                  (after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    printf("%.4f %ld\n", used / sent * 1e6, acknowledged);
    return acknowledged == messages ? 0 : 1;
}
