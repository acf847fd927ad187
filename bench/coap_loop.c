/* libcoap's own client loop: so many sessions, each with so many POSTs under way (its NSTART, by default one), each answer
 * lets the next request begin. Over UDP they are confirmable. Records nothing but the number of answers.
 *
 *   coap_loop PORT SESSIONS SECONDS SIZE [UNDER_WAY [tcp]]
 */
#include <arpa/inet.h>
#include <coap3/coap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned long answers;
static size_t size;
static unsigned char payload[1024];
static char path[16] = "plimsoll";
static int stopping;

static void ask(coap_session_t *session) {
    coap_pdu_t *request = coap_new_pdu(COAP_MESSAGE_CON, COAP_REQUEST_CODE_POST, session);
    unsigned char token[8];
    size_t length;
    coap_session_new_token(session, &length, token);
    coap_add_token(request, length, token);
    coap_add_option(request, COAP_OPTION_URI_PATH, strlen(path), (const uint8_t *)path);
    coap_add_option(request, COAP_OPTION_URI_PATH, 5, (const uint8_t *)"bench");
    coap_add_option(request, COAP_OPTION_URI_PATH, 2, (const uint8_t *)"00");
    coap_add_data(request, size, payload);
    if (coap_send(session, request) == COAP_INVALID_MID) fprintf(stderr, "a request was not sent\n");
}

static coap_response_t answered(coap_session_t *session, const coap_pdu_t *sent, const coap_pdu_t *received,
                                const coap_mid_t id) {
    (void)sent, (void)received, (void)id;
    answers++;
    if (!stopping) ask(session);
    return COAP_RESPONSE_OK;
}

int main(int count, char **arguments) {
    if (count < 5) {
        fprintf(stderr, "usage: coap_loop PORT SESSIONS SECONDS SIZE [UNDER_WAY [tcp]]\n");
        return 2;
    }
    int over_tcp = count > 6 && strcmp(arguments[6], "tcp") == 0;
    int sessions = atoi(arguments[2]), seconds = atoi(arguments[3]), under_way = count > 5 ? atoi(arguments[5]) : 1;
    size = strtoul(arguments[4], NULL, 10);
    if (size > sizeof payload) return 2;
    memset(payload, 'x', sizeof payload);
    coap_startup();
    coap_context_t *context = coap_new_context(NULL);
    coap_address_t address;
    coap_address_init(&address);
    address.size = sizeof address.addr.sin;
    address.addr.sin.sin_family = AF_INET;
    address.addr.sin.sin_port = htons(atoi(arguments[1]));
    address.addr.sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    coap_register_response_handler(context, answered);
    for (int i = 0; i < sessions; i++) {
        coap_session_t *session = coap_new_client_session(context, NULL, &address, over_tcp ? COAP_PROTO_TCP : COAP_PROTO_UDP);
        if (!session) {
            fprintf(stderr, "no session\n");
            return 1;
        }
        coap_session_set_nstart(session, under_way);
        for (int each = 0; each < under_way; each++) ask(session);
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + seconds;
    while (now.tv_sec < end) {
        coap_io_process(context, 100);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    stopping = 1;
    printf("%lu answers\n", answers);
    return 0;
}
