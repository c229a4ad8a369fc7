package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogUser is a principal of a LogCluster, with the principal's credentials, ACLs and quotas. A new
// value of the annotation heartwood.dev/rotate requests new credentials.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lu,categories=heartwood
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.spec.authentication.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="ACLs",type=integer,JSONPath=`.status.acls`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiryTime`
// +kubebuilder:printcolumn:name="Secret",type=string,priority=1,JSONPath=`.status.secretName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 200",message="metadata.name must have at most 200 characters, as the Secret is named after it: choose a shorter one, and set spec.userName for a long name"
type LogUser struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state.
	Spec LogUserSpec `json:"spec"`
	// Status is the observed state. The operator writes it. It contains no credentials. Its
	// observedGeneration is -1 until the operator has observed the resource.
	// +kubebuilder:default={"acls":0,"observedGeneration":-1}
	Status LogUserStatus `json:"status,omitempty"`
}

// PrincipalName returns the principal's name, without the type User.
func (u *LogUser) PrincipalName() string {
	if u.Spec.UserName != "" {
		return u.Spec.UserName
	}
	return u.Name
}

// LogUserSpec is the desired state of a LogUser.
//
// +kubebuilder:validation:XValidation:rule="has(self.userName) == has(oldSelf.userName)",message="userName cannot be set, changed or removed later: make a new LogUser"
type LogUserSpec struct {
	// Cluster is the name of the LogCluster in the same namespace. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster cannot be changed: make a new LogUser in the other cluster"
	Cluster string `json:"cluster"`
	// UserName is the principal's name if this is not a valid resource name. Examples are the
	// distinguished name of a certificate, the subject of a token, * for all principals, or ANONYMOUS
	// for clients without authentication. It cannot be changed. Default: metadata.name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="userName cannot be set, changed or removed later: make a new LogUser"
	UserName string `json:"userName,omitempty"`
	// Authentication is the way in which the principal authenticates. Default: type External, which
	// has no credentials in this resource.
	// +optional
	// +kubebuilder:default={type: External}
	Authentication UserAuthentication `json:"authentication,omitzero"`
	// ACLs allow or deny operations. Kafka's admin requests for ACLs change this list. The ACLs take
	// effect only with authorization Simple.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	ACLs []ACL `json:"acls,omitempty"`
	// Quotas limit the principal on each broker. The quotas of the LogUser * apply to each principal
	// that has no quota of the same kind. Kafka's admin requests for users' quotas change this field.
	// +optional
	Quotas *Quotas `json:"quotas,omitempty"`
}

// UserAuthenticationType is the way in which a principal authenticates.
// +kubebuilder:validation:Enum=Scram;TLS;External
type UserAuthenticationType string

const (
	// UserScram authenticates by a password (SCRAM-SHA-256 and SCRAM-SHA-512).
	UserScram UserAuthenticationType = "Scram"
	// UserTLS authenticates by a client certificate that the users CA issues.
	UserTLS UserAuthenticationType = "TLS"
	// UserExternal means that the LogUser contains no credentials. The principal can be the owner of
	// an externally issued token or certificate, a user whose password an admin client has set, all
	// principals (*), or ANONYMOUS.
	UserExternal UserAuthenticationType = "External"
)

// UserAuthentication is the way in which a principal authenticates.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Scram' || !has(self.passwordFrom)",fieldPath=".passwordFrom",message="passwordFrom applies to type Scram only"
type UserAuthentication struct {
	// Type is Scram (a password), TLS (a client certificate) or External (no credentials in this
	// resource). The credentials are in the Secret status.secretName.
	// +required
	Type UserAuthenticationType `json:"type"`
	// PasswordFrom names the Secret key with the password, for type Scram. By default, the operator
	// generates a password.
	// +optional
	PasswordFrom *SecretKey `json:"passwordFrom,omitempty"`
}

// ACL allows or denies operations on resources, like an access control entry of Kafka.
//
// +kubebuilder:validation:XValidation:rule="self.resource.type != 'Topic' || self.operations.all(o, o in ['All', 'Read', 'Write', 'Create', 'Describe', 'Delete', 'Alter', 'DescribeConfigs', 'AlterConfigs'])",fieldPath=".operations",message="a Topic has the operations All, Read, Write, Create, Describe, Delete, Alter, DescribeConfigs and AlterConfigs"
// +kubebuilder:validation:XValidation:rule="self.resource.type != 'Group' || self.operations.all(o, o in ['All', 'Read', 'Describe', 'Delete', 'DescribeConfigs', 'AlterConfigs'])",fieldPath=".operations",message="a Group has the operations All, Read, Describe, Delete, DescribeConfigs and AlterConfigs"
// +kubebuilder:validation:XValidation:rule="self.resource.type != 'Cluster' || self.operations.all(o, o in ['All', 'Create', 'ClusterAction', 'DescribeConfigs', 'AlterConfigs', 'IdempotentWrite', 'Alter', 'Describe'])",fieldPath=".operations",message="the Cluster has the operations All, Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter and Describe"
// +kubebuilder:validation:XValidation:rule="self.resource.type != 'TransactionalId' || self.operations.all(o, o in ['All', 'Describe', 'Write', 'TwoPhaseCommit'])",fieldPath=".operations",message="a TransactionalId has the operations All, Describe, Write and TwoPhaseCommit"
// +kubebuilder:validation:XValidation:rule="self.resource.type != 'User' || self.operations.all(o, o in ['All', 'CreateTokens', 'DescribeTokens'])",fieldPath=".operations",message="a User has the operations All, CreateTokens and DescribeTokens"
type ACL struct {
	// Resource selects the resources.
	// +required
	Resource ACLResource `json:"resource"`
	// Operations are the allowed or denied operations, such as Read.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=14
	Operations []ACLOperation `json:"operations"`
	// Type is Allow or Deny. Deny takes precedence over every Allow.
	// +optional
	// +kubebuilder:default=Allow
	Type ACLType `json:"type,omitempty"`
	// Host is the clients' IP address, or * for all addresses.
	// +optional
	// +kubebuilder:default="*"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
}

// ACLResource selects resources.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Cluster' || (!has(self.name) || self.name == 'kafka-cluster') && (!has(self.pattern) || self.pattern == 'Literal')",fieldPath=".name",message="the name of the Cluster is kafka-cluster, with pattern Literal"
// +kubebuilder:validation:XValidation:rule="self.type == 'Cluster' || has(self.name)",fieldPath=".name",message="write a name, or * for all resources of the type"
type ACLResource struct {
	// Type is Topic, Group, Cluster, TransactionalId or User.
	// +required
	Type ACLResourceType `json:"type"`
	// Name is a name, * for all resources of the type, or with pattern Prefix the start of names. Type
	// Cluster needs no name, because its only resource is kafka-cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`
	// Pattern is Literal or Prefix.
	// +optional
	// +kubebuilder:default=Literal
	Pattern ACLPattern `json:"pattern,omitempty"`
}

// ACLResourceType is a type of resources.
// +kubebuilder:validation:Enum=Topic;Group;Cluster;TransactionalId;User
type ACLResourceType string

// Types of resources.
const (
	ACLTopic           ACLResourceType = "Topic"
	ACLGroup           ACLResourceType = "Group"
	ACLCluster         ACLResourceType = "Cluster"
	ACLTransactionalID ACLResourceType = "TransactionalId"
	ACLUser            ACLResourceType = "User"
)

// ClusterResourceName is the name of the only resource of type Cluster.
const ClusterResourceName = "kafka-cluster"

// KafkaName returns the resource's name in Kafka.
func (r ACLResource) KafkaName() string {
	if r.Type == ACLCluster {
		return ClusterResourceName
	}
	return r.Name
}

// ACLPattern is the way in which an ACL selects names.
// +kubebuilder:validation:Enum=Literal;Prefix
type ACLPattern string

const (
	// ACLLiteral selects one name, or all names if the name is *.
	ACLLiteral ACLPattern = "Literal"
	// ACLPrefix selects all names that start with the name.
	ACLPrefix ACLPattern = "Prefix"
)

// ACLType says whether an ACL allows or denies.
// +kubebuilder:validation:Enum=Allow;Deny
type ACLType string

const (
	// ACLAllow allows the operations.
	ACLAllow ACLType = "Allow"
	// ACLDeny denies the operations.
	ACLDeny ACLType = "Deny"
)

// ACLOperation is an operation on a resource, as in Kafka.
// +kubebuilder:validation:Enum=All;Read;Write;Create;Delete;Alter;Describe;ClusterAction;DescribeConfigs;AlterConfigs;IdempotentWrite;CreateTokens;DescribeTokens;TwoPhaseCommit
type ACLOperation string

// Operations.
const (
	ACLAll             ACLOperation = "All"
	ACLRead            ACLOperation = "Read"
	ACLWrite           ACLOperation = "Write"
	ACLCreate          ACLOperation = "Create"
	ACLDelete          ACLOperation = "Delete"
	ACLAlter           ACLOperation = "Alter"
	ACLDescribe        ACLOperation = "Describe"
	ACLClusterAction   ACLOperation = "ClusterAction"
	ACLDescribeConfigs ACLOperation = "DescribeConfigs"
	ACLAlterConfigs    ACLOperation = "AlterConfigs"
	ACLIdempotentWrite ACLOperation = "IdempotentWrite"
	ACLCreateTokens    ACLOperation = "CreateTokens"
	ACLDescribeTokens  ACLOperation = "DescribeTokens"
	ACLTwoPhaseCommit  ACLOperation = "TwoPhaseCommit"
)

// Maximum values of quotas.
const (
	RequestPercentMax     = 100_000
	PartitionMutationsMax = 1_000_000
)

// Quotas limit a principal on each broker. After an idle time, a principal can use up to 10 s of
// its quota at once.
type Quotas struct {
	// ProduceRate is the rate at which the principal can produce, in bytes per second
	// (producer_byte_rate), at least 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0",message="write at least 1 byte a second, such as 10Mi; leave it out for no limit"
	ProduceRate *resource.Quantity `json:"produceRate,omitempty"`
	// FetchRate is the rate at which the principal can fetch, in bytes per second
	// (consumer_byte_rate).
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1')) >= 0",message="write at least 1 byte a second, such as 10Mi; leave it out for no limit"
	FetchRate *resource.Quantity `json:"fetchRate,omitempty"`
	// RequestPercent is the processing time that the principal's requests can use, in percent of one
	// processor (request_percentage).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	RequestPercent *int32 `json:"requestPercent,omitempty"`
	// PartitionMutationRate is the rate at which the principal can create and delete partitions, in
	// partitions per second (controller_mutation_rate, KIP-599).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	PartitionMutationRate *int32 `json:"partitionMutationRate,omitempty"`
}

// LogUserStatus is the observed state of a LogUser. The operator writes it. It contains no
// credentials.
type LogUserStatus struct {
	// ObservedGeneration is the metadata.generation on which this status is based.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SecretName is the name of the Secret with the credentials and client configurations.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// ACLs is the number of ACLs.
	// +kubebuilder:default=0
	ACLs int32 `json:"acls"`
	// ExpiryTime is the time at which the client certificate expires. The operator renews the
	// certificate before this time.
	// +optional
	ExpiryTime *metav1.Time `json:"expiryTime,omitempty"`
	// Rotated is the last value of annotation heartwood.dev/rotate for which new credentials were
	// created.
	// +optional
	Rotated string `json:"rotated,omitempty"`
	// Conditions are Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LogUserList is a list of LogUsers.
//
// +kubebuilder:object:root=true
type LogUserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LogUser `json:"items"`
}
