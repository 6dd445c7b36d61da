import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.zeromq.ZMQ;

/**
 * Runs the whole protocol of docs/zeromq.md with JeroMQ, from that page alone.
 *
 * <p>java -cp jeromq.jar TopicsClient.java ENDPOINT TIMEOUT_MS TOKEN OTHER_TOKEN ADMIN_TOKEN
 *
 * <p>It prints a line for each step and ends with "done"; the first surprise ends it with an error.
 */
public class TopicsClient {
    private final ZMQ.Context context = ZMQ.context(1);
    private final String endpoint;
    private final int timeoutMilliseconds;
    private ZMQ.Socket socket;
    private int resent;

    TopicsClient(String endpoint, int timeoutMilliseconds) {
        this.endpoint = endpoint;
        this.timeoutMilliseconds = timeoutMilliseconds;
        connect();
    }

    private void connect() {
        socket = context.socket(ZMQ.REQ);
        socket.setLinger(0);
        socket.setReceiveTimeOut(timeoutMilliseconds);
        socket.connect(endpoint);
    }

    /** One request and its answer; without an answer in time, again on a new socket. */
    List<String> ask(String... frames) {
        while (true) {
            for (int i = 0; i < frames.length - 1; i++) {
                socket.sendMore(frames[i]);
            }
            socket.send(frames[frames.length - 1]);
            byte[] first = socket.recv(0);
            if (first != null) {
                List<String> answer = new ArrayList<>();
                answer.add(new String(first, StandardCharsets.UTF_8));
                while (socket.hasReceiveMore()) {
                    answer.add(new String(socket.recv(0), StandardCharsets.UTF_8));
                }
                return answer;
            }
            resent++;
            System.out.println("resend");
            socket.close();
            connect();
        }
    }

    void close() {
        socket.close();
        context.term();
    }

    /** The answer begins with these frames. */
    static void expect(String step, List<String> answer, String... frames) {
        List<String> head = answer.subList(0, Math.min(frames.length, answer.size()));
        if (!head.equals(Arrays.asList(frames))) {
            throw new AssertionError(step + ": expected " + Arrays.asList(frames) + ", got " + answer);
        }
        System.out.println("ok " + step);
    }

    static void check(String step, boolean holds, List<String> answer) {
        if (!holds) {
            throw new AssertionError(step + ": " + answer);
        }
        System.out.println("ok " + step);
    }

    public static void main(String[] arguments) {
        TopicsClient client = new TopicsClient(arguments[0], Integer.parseInt(arguments[1]));
        try {
            client.run(arguments[2], arguments[3], arguments[4]);
        } finally {
            client.close();
        }
        System.out.println("done");
    }

    void run(String token, String other, String admin) {
        expect("ping", ask("ping", token), "Pong", "shop");
        expect("an empty hub", ask("get", token, ""), "NotSubscribed", "");
        expect("no topic", ask("get", token, "orders"), "NonExistentTopic", "orders");
        expect("subscribe", ask("subscribe", token, "orders"), "SUBSCRIBED", "orders", "default");
        expect("nothing yet", ask("get", token, "orders"), "EmptyTopic", "orders");

        expect("open", ask("open", token, "orders", "java"), "ProducerOpened", "orders", "1", "0");
        String first = "{\"producer\": \"java\", \"sequence\": 1, \"fence\": 1}";
        List<String> put = ask("put", token, "orders", "zwei Teekannen \u2615", first);
        expect("put", put, "PutReply", "orders", "1");
        List<String> again = ask("put", token, "orders", "zwei Teekannen \u2615", first);
        expect("the same put again", again, "PutReply", "orders", "1");
        check("it is a duplicate", again.get(3).contains("\"duplicate\":true"), again);
        expect("another payload", ask("put", token, "orders", "x", first), "ERROR", "sequence_reused");
        String gap = "{\"producer\": \"java\", \"sequence\": 3, \"fence\": 1}";
        expect("a gap", ask("put", token, "orders", "x", gap), "ERROR", "sequence_gap");
        expect("open again", ask("open", token, "orders", "java"), "ProducerOpened", "orders", "2", "1");
        String fenced = "{\"producer\": \"java\", \"sequence\": 2, \"fence\": 1}";
        expect("an old fence", ask("put", token, "orders", "x", fenced), "ERROR", "producer_fenced");
        String second = "{\"producer\": \"java\", \"sequence\": 2, \"fence\": 2}";
        expect("the next put", ask("put", token, "orders", "a kettle", second), "PutReply", "orders", "2");

        List<String> article = ask("get", token, "orders");
        expect("get", article, "TopicArticle", "orders", "1", "zwei Teekannen \u2615");
        expect("get the same", ask("get", token, "orders"), "TopicArticle", "orders", "1");
        List<String> both = ask("get", token, "orders", "{\"limit\": 10}");
        check("two at once", both.size() == 9 && both.get(7).equals("a kettle"), both);
        expect("ack", ask("ack", token, "orders", "1"), "Ack", "orders", "1");
        expect("the next one", ask("get", token, "orders"), "TopicArticle", "orders", "2");
        expect("not another's", ask("get", other, "orders"), "NotSubscribed", "orders");

        expect("subscribe to more", ask("subscribe", token, "returns"), "SUBSCRIBED", "returns");
        List<String> each = ask("get", token, "");
        expect("one of each", each.subList(0, 3), "TopicArticle", "orders", "2");
        expect("and nothing", each.subList(5, 7), "EmptyTopic", "returns");
        expect("ack up to", ask("ack", token, "orders", "2", "{\"upTo\": true}"), "Ack", "orders", "2");
        expect("all done", ask("get", token, "orders", "{\"wait\": 0.1}"), "EmptyTopic", "orders");

        expect("unsubscribe", ask("unsubscribe", token, "returns"), "UNSUBSCRIBED", "returns");
        String archive = "{\"subscription\": \"archive\"}";
        expect("none there", ask("unsubscribe", token, "orders", archive), "NotSubscribed", "orders");
        expect("bad option", ask("get", token, "orders", "{\"a\": 1}"), "ERROR", "bad_request");
        expect("bad command", ask("grab", token), "ERROR", "malformed");
        expect("bad token", ask("get", token + "x", "orders"), "ERROR", "invalid_token");
        expect("no shutdown", ask("shutdown", token), "ERROR", "not_permitted");
        expect("shutdown", ask("shutdown", admin), "Shutdown");
        System.out.println("resent " + resent);
    }
}
