/* The simplest program that notifies an LwM2M server: so many devices register over one socket, each from an address of its
 * own, and are observed. Then pre-encoded notifications go out at a rate, one call each, and acknowledgements are read and
 * not looked at. It looks every TICK nanoseconds what is due and what has come; with a TICK of 0 it is woken when something is due or has
 * come. It prints the processor time of the notifying alone. Ticks are absolute, and the kernel may not delay them to save wake-ups: who
 * looks too seldom is cheap, and late.
 *
 *   lwm2m_floor PORT DEVICES RATE SECONDS SIZE TICK
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { LARGEST = 1500, LATEST = 100000 };

struct device {
    unsigned char token[8];
    unsigned token_length, number;
    unsigned short id;
};

static int server;
static struct sockaddr_in to;
static char control[CMSG_SPACE(sizeof(struct in_pktinfo))];

static void send_as(unsigned device, unsigned char *bytes, size_t length) {
    struct iovec part = {bytes, length};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = IPPROTO_IP;
    head->cmsg_type = IP_PKTINFO;
    head->cmsg_len = CMSG_LEN(sizeof(struct in_pktinfo));
    struct in_pktinfo from = {.ipi_spec_dst.s_addr = htonl(0x7f010001u + device)};
    memcpy(CMSG_DATA(head), &from, sizeof from);
    if (sendmsg(server, &message, 0) < 0) perror("sendmsg");
}

/* Reads a datagram and the device that it is for; its length, or -1 where there is none. */
static ssize_t read_for(unsigned *device, unsigned char *room, int flags) {
    char own[CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct iovec part = {room, LARGEST};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = own, .msg_controllen = sizeof own};
    ssize_t length = recvmsg(server, &message, flags);
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); length > 0 && head; head = CMSG_NXTHDR(&message, head)) {
        struct in_pktinfo info;
        if (head->cmsg_level != IPPROTO_IP || head->cmsg_type != IP_PKTINFO) continue;
        memcpy(&info, CMSG_DATA(head), sizeof info);
        *device = ntohl(info.ipi_addr.s_addr) - 0x7f010001u;
    }
    return length;
}

static double seconds(struct timespec at) { return at.tv_sec + at.tv_nsec / 1e9; }

static double used(void) {
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    return own.ru_utime.tv_sec + own.ru_stime.tv_sec + (own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return seconds(at);
}

/* By how many microseconds the message in that place was late, the earliest first. */
static unsigned quantile(const unsigned long *late, unsigned long place) {
    unsigned at = 0;
    for (unsigned long seen = late[0]; seen < place && at < LATEST; seen += late[at]) at++;
    return at;
}

int main(int count, char **arguments) {
    if (count < 7) {
        fprintf(stderr, "usage: lwm2m_floor PORT DEVICES RATE SECONDS SIZE TICK\n");
        return 2;
    }
    unsigned devices = atoi(arguments[2]);
    double rate = atof(arguments[3]), hold = atof(arguments[4]);
    size_t size = strtoul(arguments[5], NULL, 10);
    if (size > LARGEST - 64) return 2;
    struct device *all = calloc(devices, sizeof *all);
    to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    server = socket(AF_INET, SOCK_DGRAM, 0);
    int on = 1, room_size = 64 << 20;
    struct sockaddr_in any = {.sin_family = AF_INET};
    if (bind(server, (struct sockaddr *)&any, sizeof any) < 0) return 1;
    setsockopt(server, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2);
    setsockopt(server, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
    setsockopt(server, SOL_SOCKET, SO_RCVBUFFORCE, &room_size, sizeof room_size);
    unsigned char room[LARGEST], out[LARGEST];
    for (unsigned device = 0; device < devices; device++) {
        /* CON POST /rd, format 40, ep=fNNNNNNN, lt=86400; links of 19/0. */
        size_t length = 0;
        memcpy(out, "\x42\x02\x00\x01\x00\x01\xb2rd\x11\x28", 11);
        length = 11;
        out[length++] = 0x3b; /* Uri-Query, 11 bytes */
        length += sprintf((char *)out + length, "ep=f%07u", device);
        out[length++] = 0x08;
        memcpy(out + length, "lt=86400", 8);
        length += 8;
        out[length++] = 0xff;
        memcpy(out + length, "</19/0>", 7);
        send_as(device, out, length + 7);
        while (all[device].token_length == 0) {
            unsigned whose = 0;
            ssize_t came = read_for(&whose, room, 0);
            /* The request to observe: a confirmable GET. */
            if (came < 4 || (room[0] & 0x30) != 0 || room[1] != 1 || whose >= devices) continue;
            all[whose].token_length = room[0] & 15;
            memcpy(all[whose].token, room + 4, all[whose].token_length);
            unsigned char *at = out;
            *at++ = 0x60 | all[whose].token_length;
            *at++ = 0x45;
            memcpy(at, room + 2, 2);
            at += 2;
            memcpy(at, all[whose].token, all[whose].token_length);
            at += all[whose].token_length;
            memcpy(at, "\x60\x61\x2a\xffx", 5); /* Observe 0, format 42 */
            send_as(whose, out, at + 5 - out);
        }
    }
    long step = atol(arguments[6]);
    prctl(PR_SET_TIMERSLACK, 1UL);
    double begin = now(), before = used();
    static unsigned long late[LATEST + 1]; /* messages that were late by so many microseconds, the last place for all above */
    unsigned long sent = 0, acknowledged = 0;
    unsigned at = 0;
    while (now() - begin < hold) {
        unsigned long due = (now() - begin) * rate;
        for (; sent < due; sent++, at = (at + 1) % devices) {
            struct device *own = &all[at];
            unsigned char *end = out;
            own->number = (own->number + 1) & 0xffffff;
            own->id++;
            *end++ = 0x40 | own->token_length;
            *end++ = 0x45;
            *end++ = own->id >> 8;
            *end++ = own->id;
            memcpy(end, own->token, own->token_length);
            end += own->token_length;
            *end++ = 0x63;
            *end++ = own->number >> 16;
            *end++ = own->number >> 8;
            *end++ = own->number;
            memcpy(end, "\x61\x2a\xff", 3);
            memset(end + 3, 'x', size);
            send_as(at, out, end + 3 + size - out);
            unsigned long by = (now() - begin - (sent + 1) / rate) * 1e6;
            late[by < LATEST ? by : LATEST]++;
        }
        unsigned whose;
        while (read_for(&whose, room, MSG_DONTWAIT) > 0) acknowledged++;
        if (step == 0) {
            double left = (sent + 1) / rate - (now() - begin);
            struct timespec wait = {.tv_nsec = left > 0 ? left * 1e9 : 0};
            struct pollfd readable = {.fd = server, .events = POLLIN};
            ppoll(&readable, 1, &wait, NULL);
            continue;
        }
        unsigned long tick = (now() - begin) * 1e9 / step + 1;
        double until = begin + tick * step / 1e9;
        struct timespec then = {.tv_sec = until, .tv_nsec = (until - (time_t)until) * 1e9};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
    }
    double spent = used() - before;
    printf("%lu sent, %lu acknowledged, late by %u us at p50 and %u us at p99, %.2f us of processor time each\n", sent,
           acknowledged, quantile(late, sent / 2), quantile(late, sent - sent / 100), spent / sent * 1e6);
    return 0;
}
