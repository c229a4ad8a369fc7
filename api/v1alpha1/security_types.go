package v1alpha1

// AuthorizationType is the way in which requests are authorized.
// +kubebuilder:validation:Enum=None;Simple
type AuthorizationType string

const (
	// AuthorizationNone allows every request.
	AuthorizationNone AuthorizationType = "None"
	// AuthorizationSimple allows only what the LogUsers' ACLs allow, like Kafka's StandardAuthorizer
	// with allow.everyone.if.no.acl.found=false.
	AuthorizationSimple AuthorizationType = "Simple"
)

// Authorization decides which principals are allowed to do what.
type Authorization struct {
	// Type is None (every request is allowed) or Simple (the LogUsers' ACLs apply, and everything that
	// they do not allow is denied).
	// +required
	Type AuthorizationType `json:"type"`
	// SuperUsers contains the names of principals of type User that are allowed to do everything
	// (super.users).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	SuperUsers []string `json:"superUsers,omitempty"`
}

// HTTPMetrics determines who can read the brokers' metrics.
// +kubebuilder:validation:Enum=Open;Authorized
type HTTPMetrics string

const (
	// HTTPMetricsOpen serves the metrics to every client.
	HTTPMetricsOpen HTTPMetrics = "Open"
	// HTTPMetricsAuthorized serves the metrics to clients whose token has the permission to get
	// logclusters/metrics.
	HTTPMetricsAuthorized HTTPMetrics = "Authorized"
)

// HTTP configures each broker's HTTP port.
type HTTP struct {
	// Metrics is Open (every client can read the metrics) or Authorized (a client needs the token of a
	// ServiceAccount with the permission to get logclusters/metrics). Default Open. With Authorized,
	// the HTTP port has TLS, and brokers connect to each other with mutual TLS.
	// +optional
	Metrics HTTPMetrics `json:"metrics,omitempty"`
	// AllowFrom contains the sources from which the brokers' NetworkPolicy admits connections to the
	// HTTP port, such as Prometheus. The operator and the brokers are always admitted. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AllowFrom []NetworkSource `json:"allowFrom,omitempty"`
}

// Peers is the way in which brokers connect to each other.
// +kubebuilder:validation:Enum=Plain;MutualTLS
type Peers string

const (
	// PeersPlain does not authenticate brokers.
	PeersPlain Peers = "Plain"
	// PeersMutualTLS authenticates brokers by certificates of the peer CA.
	PeersMutualTLS Peers = "MutualTLS"
)
