package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
)

// securityCreations are resources that break rules about listeners, authorization and LogUsers.
func securityCreations() []TableEntry {
	return append(listenerCreations(), userCreations()...)
}

func listenerCreations() []TableEntry {
	cluster := func(spec, field, message string) TableEntry {
		return Entry("LogCluster "+spec, "LogCluster", "spec: "+spec, "spec."+field, message)
	}
	// listener returns an entry for a LogCluster with one listener.
	listener := func(fields, field, message string) TableEntry {
		return cluster("{listeners: [{name: l, port: 9093, "+fields+"}]}", "listeners"+field,
			message)
	}
	const (
		routeText = "type TLSRoute needs tls, and an advertised.host with {id}, such as b{id}.kafka.example.com: a gateway selects the broker by the server name of the TLS connection"
		plainText = "only SCRAM on a listener of type Internal works without tls: add tls, as without it others could take over connections or tokens"
		onlyTLS   = "clientCAs and principalRules apply to type TLS only"
		oauthText = "set serviceAccounts alone, or issuer, jwksURL and audience"
		hostText  = "write a host name or IP address, in which {id} stands for the broker's id, such as b{id}.kafka.example.com"
		source    = "set cidr, or namespaceSelector and podSelector, or one of these two"
	)
	oauth := func(fields string) string {
		return "tls: {}, authentication: [{type: OAuthBearer, oauth: {" + fields + "}}]"
	}
	return []TableEntry{
		cluster("{listeners: []}", "listeners", "should have at least 1 items"),
		cluster("{listeners: [{name: a, port: 9093}, {name: b, port: 9093}]}", "listeners",
			"two listeners have the same port: choose another port for one of them"),
		cluster("{listeners: {port: 9092}}", "listeners", `must be of type array: "object"`),
		cluster("{listeners: [{name: a, port: 9091}]}", "listeners[0].port",
			"ports 9091 (connections between brokers) and 9644 (HTTP) are reserved: choose another port"),
		cluster("{listeners: [{name: http, port: 9092}]}", "listeners[0].name",
			"the names peers, http, broker, brokers and bootstrap are reserved: choose another name"),
		cluster("{listeners: [{name: a--b, port: 9092}]}", "listeners[0].name",
			"the name of a listener must begin with a letter and hold only lower-case letters, digits and single dashes"),
		listener("type: TLSRoute, tls: {}", "[0].type", routeText),
		listener("type: NodePort, gateway: {name: edge}", "[0].gateway",
			"gateway applies to type TLSRoute only"),
		listener("type: TLSRoute, tls: {}, advertised: {host: b.example.com}", "[0].type",
			routeText),
		listener("type: TLSRoute, advertised: {host: 'b{id}.example.com'}", "[0].type", routeText),
		listener("type: NodePort, authentication: [{type: ScramSha512}]", "[0].tls", plainText),
		listener("authentication: [{type: TLS}]", "[0].tls", plainText),
		listener("authentication: [{type: OAuthBearer, oauth: {serviceAccounts: true}}]", "[0].tls",
			plainText),
		listener("tls: {}, authentication: [{type: TLS}, {type: ScramSha256}]",
			"[0].authentication",
			"TLS excludes other types of authentication: make another listener for them"),
		listener("tls: {}, authentication: [{type: TLS}], maxReauth: 1h", "[0].maxReauth",
			"maxReauth applies to SCRAM and OAuthBearer: remove it, or add such an authentication"),
		listener("authentication: [{type: ScramSha512}], maxReauth: 59s", "[0].maxReauth",
			"write a duration of 1m to 24h, such as 1h"),
		listener("tls: {secretName: a, issuerRef: {name: b}}", "[0].tls",
			"choose secretName or issuerRef, not both"),
		listener("authentication: [{type: ScramSha512, principalRules: [DEFAULT]}]",
			"[0].authentication[0]", onlyTLS),
		listener("tls: {}, authentication: [{type: ScramSha512, oauth: {serviceAccounts: true}}]",
			"[0].authentication[0].oauth", "oauth applies to type OAuthBearer only"),
		listener("tls: {}, authentication: [{type: OAuthBearer}]", "[0].authentication[0].oauth",
			"type OAuthBearer needs oauth: it says whose tokens are accepted"),
		listener(oauth("serviceAccounts: true, issuer: a"), "[0].authentication[0].oauth",
			oauthText),
		listener(oauth("issuer: a, audience: b"), "[0].authentication[0].oauth", oauthText),
		listener(oauth("issuer: a, audience: b, jwksURL: 'http://a/jwks'"),
			"[0].authentication[0].oauth.jwksURL", "jwksURL must be an https URL"),
		listener("advertised: {host: 'b{n}.example.com'}", "[0].advertised.host", hostText),
		listener("allowFrom: [{}]", "[0].allowFrom[0]", source),
		listener("allowFrom: [{cidr: 10.0.0.0/8, podSelector: {}}]", "[0].allowFrom[0]", source),
		listener("allowFrom: [{cidr: 10.0.0.0}]", "[0].allowFrom[0].cidr",
			"write a range of addresses such as 10.0.0.0/8"),
		listener(oauth("serviceAccounts: true, ca: {name: a, key: b}"),
			"[0].authentication[0].oauth.ca", "ca applies to jwksURL only: remove it"),
	}
}

func userCreations() []TableEntry {
	user := func(spec, field, message string) TableEntry {
		return Entry("LogUser "+spec, "LogUser", "spec: "+spec, "spec."+field, message)
	}
	acl := func(resource, operation, field, message string) TableEntry {
		return user("{acls: [{resource: {"+resource+"}, operations: ["+operation+"]}]}",
			"acls[0]."+field, message)
	}
	const (
		clusterText = "the name of the Cluster is kafka-cluster, with pattern Literal"
		atLeastOne  = "write at least 1 byte a second, such as 10Mi; leave it out for no limit"
	)
	return []TableEntry{
		user("{authentication: {type: TLS, passwordFrom: {name: a, key: b}}}",
			"authentication.passwordFrom", "passwordFrom applies to type Scram only"),
		acl("type: Topic, name: a", "Read, ClusterAction", "operations",
			"a Topic has the operations All, Read, Write, Create, Describe, Delete, Alter, DescribeConfigs and AlterConfigs"),
		acl("type: Group, name: a", "Write", "operations",
			"a Group has the operations All, Read, Describe, Delete, DescribeConfigs and AlterConfigs"),
		acl("type: Cluster, name: kafka-cluster", "Read", "operations",
			"the Cluster has the operations All, Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter and Describe"),
		acl("type: TransactionalId, name: a", "Read", "operations",
			"a TransactionalId has the operations All, Describe, Write and TwoPhaseCommit"),
		acl("type: User, name: a", "Read", "operations",
			"a User has the operations All, CreateTokens and DescribeTokens"),
		acl("type: Topic", "Read", "resource.name",
			"write a name, or * for all resources of the type"),
		acl("type: Cluster, name: main", "Alter", "resource.name", clusterText),
		acl("type: Cluster, name: kafka-cluster, pattern: Prefix", "Alter", "resource.name",
			clusterText),
		user("{quotas: {produceRate: 0}}", "quotas.produceRate", atLeastOne),
		user("{quotas: {fetchRate: much}}", "quotas.fetchRate", atLeastOne),
		user("{quotas: {requestPercent: 0}}", "quotas.requestPercent",
			"should be greater than or equal to 1"),
		user("{quotas: {partitionMutationRate: 1000001}}", "quotas.partitionMutationRate",
			"should be less than or equal to 1000000"),
		Entry("a LogUser whose name is too long", "LogUser",
			"metadata: {name: "+strings.Repeat("a", 201)+"}", "",
			"metadata.name must have at most 200 characters, as the Secret is named after it: choose a shorter one, and set spec.userName for a long name"),
	}
}

// userChanges are updates that break rules about LogUsers.
func userChanges() []TableEntry {
	const kept = "userName cannot be set, changed or removed later: make a new LogUser"
	return []TableEntry{
		Entry("another cluster of a LogUser", "LogUser", "{}", "spec: {cluster: other}",
			"spec.cluster", "cluster cannot be changed: make a new LogUser in the other cluster"),
		Entry("another userName", "LogUser", "spec: {userName: A}", "spec: {userName: B}",
			"spec.userName", kept),
		Entry("added userName", "LogUser", "{}", "spec: {userName: B}", "spec", kept),
	}
}

// securityAccepted returns valid manifests.
func securityAccepted() []TableEntry {
	var entries []TableEntry
	for _, spec := range []string{
		"{listeners: [{name: a, port: 1}]}",
		"{listeners: [{name: intern-9-abc, port: 65535, type: Internal}]}",
		"{listeners: [{name: a, port: 9092, allowFrom: [{cidr: '2001:db8::/32'}, {podSelector: {matchLabels: {app: a}}, namespaceSelector: {}}]}]}",
		"{http: {metrics: Authorized}}",
		"{listeners: [{name: a, port: 1, tls: {}, authentication: [{type: OAuthBearer, oauth: {serviceAccounts: true}}, {type: ScramSha512}]}]}",
		"{listeners: [{name: a, port: 1, tls: {}, authentication: [{type: OAuthBearer, oauth: {issuer: a, jwksURL: 'https://a', audience: b, principalClaim: c, ca: {name: d, key: e}}}]}]}",
		"{authorization: {type: None}, http: {metrics: Open, allowFrom: [{cidr: 10.0.0.0/8}]}, peers: Plain}",
	} {
		entries = append(entries, Entry("LogCluster "+spec, "LogCluster", "spec: "+spec))
	}
	for _, spec := range []string{
		"{}", "{userName: 'CN=a, O=b'}", "{userName: '*'}",
		"{authentication: {type: Scram, passwordFrom: {name: a, key: b}}}",
		"{authentication: {type: TLS}}",
		"{userName: '*', quotas: {produceRate: 10Mi, fetchRate: 1, requestPercent: 100000, partitionMutationRate: 1}}",
		"{acls: [{resource: {type: Topic, name: '*'}, operations: [All], type: Deny, host: 10.0.0.1}, {resource: {type: Cluster, name: kafka-cluster}, operations: [Alter, IdempotentWrite]}, {resource: {type: Cluster}, operations: [Describe]}, {resource: {type: Group, name: a, pattern: Prefix}, operations: [Read]}]}",
	} {
		entries = append(entries, Entry("LogUser "+spec, "LogUser", "spec: "+spec))
	}
	return entries
}
