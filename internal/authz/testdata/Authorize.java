import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's StandardAuthorizer. Each line of the standard input is one of
 *   new SUPERUSERS                                       begins a set of ACLs
 *   acl TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION    adds an ACL, by Kafka's numbers
 *   ask PRINCIPAL HOST OPERATION TYPE NAME               prints 1 or 0
 *   any PRINCIPAL HOST OPERATION TYPE                    the same, for authorizeByResourceType
 * Fields are separated by tabs.
 */
public class Authorize {
    record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    static Context context(String principal, String host) throws Exception {
        String[] parts = principal.split(":", 2);
        return new Context(new KafkaPrincipal(parts[0], parts[1]), InetAddress.getByName(host));
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = System.out;
        StringBuilder results = new StringBuilder();
        StandardAuthorizer authorizer = null;
        Metrics metrics = null;
        Map<Uuid, StandardAcl> snapshot = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    if (metrics != null) metrics.close();
                    metrics = new Metrics();
                    Map<String, Object> configs = new HashMap<>();
                    configs.put("super.users", f[1]);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(metrics, Map.of()));
                    authorizer.configure(configs);
                    snapshot = new HashMap<>();
                    authorizer.loadSnapshot(snapshot);
                    authorizer.completeInitialLoad();
                }
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(f[1])), f[3],
                    PatternType.fromCode(Byte.parseByte(f[2])), f[4], f[5],
                    AclOperation.fromCode(Byte.parseByte(f[6])),
                    AclPermissionType.fromCode(Byte.parseByte(f[7]))));
                case "ask" -> {
                    Action action = new Action(AclOperation.fromCode(Byte.parseByte(f[3])),
                        new ResourcePattern(ResourceType.fromCode(Byte.parseByte(f[4])), f[5],
                            PatternType.LITERAL), 1, false, false);
                    List<Action> actions = new ArrayList<>();
                    actions.add(action);
                    results.append(authorizer.authorize(context(f[1], f[2]), actions).get(0)
                        == AuthorizationResult.ALLOWED ? '1' : '0');
                }
                case "any" -> results.append(authorizer.authorizeByResourceType(
                    context(f[1], f[2]), AclOperation.fromCode(Byte.parseByte(f[3])),
                    ResourceType.fromCode(Byte.parseByte(f[4])))
                    == AuthorizationResult.ALLOWED ? '1' : '0');
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.println(results);
    }
}
