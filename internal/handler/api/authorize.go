package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/wire"
)

// Operation is an operation that a request performs on a resource.
type Operation = authz.Operation

// The operations that handlers authorize.
const (
	OpRead            = authz.OpRead
	OpWrite           = authz.OpWrite
	OpCreate          = authz.OpCreate
	OpDelete          = authz.OpDelete
	OpAlter           = authz.OpAlter
	OpDescribe        = authz.OpDescribe
	OpClusterAction   = authz.OpClusterAction
	OpDescribeConfigs = authz.OpDescribeConfigs
	OpAlterConfigs    = authz.OpAlterConfigs
	OpIdempotentWrite = authz.OpIdempotentWrite
)

// ResourceType is a kind of resource.
type ResourceType = authz.ResourceType

// The types of resources on which handlers authorize operations.
const (
	ResourceTopic           = authz.ResourceTopic
	ResourceGroup           = authz.ResourceGroup
	ResourceCluster         = authz.ResourceCluster
	ResourceTransactionalID = authz.ResourceTransactionalID
)

const (
	// ClusterName is the name of the only resource of type cluster, as in Kafka.
	ClusterName = authz.ClusterName
	// AnyName is the Name of an Action that stands for any resource: it is allowed if the principal
	// may perform the operation on at least one resource of the type (KIP-679).
	AnyName = ""
)

// RequiredOperation is an operation and the type of its resources. Each row in the handler's table
// lists the operations that a client must be allowed to perform for its requests to succeed.
type RequiredOperation struct {
	Operation Operation
	Type      ResourceType
}

// The operations that handlers require.
var (
	ReadTopic            = RequiredOperation{OpRead, ResourceTopic}
	WriteTopic           = RequiredOperation{OpWrite, ResourceTopic}
	CreateTopic          = RequiredOperation{OpCreate, ResourceTopic}
	DeleteTopic          = RequiredOperation{OpDelete, ResourceTopic}
	AlterTopic           = RequiredOperation{OpAlter, ResourceTopic}
	DescribeTopic        = RequiredOperation{OpDescribe, ResourceTopic}
	DescribeTopicConfigs = RequiredOperation{OpDescribeConfigs, ResourceTopic}
	AlterTopicConfigs    = RequiredOperation{OpAlterConfigs, ResourceTopic}

	ReadGroup            = RequiredOperation{OpRead, ResourceGroup}
	DeleteGroup          = RequiredOperation{OpDelete, ResourceGroup}
	DescribeGroup        = RequiredOperation{OpDescribe, ResourceGroup}
	DescribeGroupConfigs = RequiredOperation{OpDescribeConfigs, ResourceGroup}
	AlterGroupConfigs    = RequiredOperation{OpAlterConfigs, ResourceGroup}

	CreateCluster          = RequiredOperation{OpCreate, ResourceCluster}
	AlterCluster           = RequiredOperation{OpAlter, ResourceCluster}
	DescribeCluster        = RequiredOperation{OpDescribe, ResourceCluster}
	ClusterAction          = RequiredOperation{OpClusterAction, ResourceCluster}
	DescribeClusterConfigs = RequiredOperation{OpDescribeConfigs, ResourceCluster}
	AlterClusterConfigs    = RequiredOperation{OpAlterConfigs, ResourceCluster}
	IdempotentWrite        = RequiredOperation{OpIdempotentWrite, ResourceCluster}

	WriteTransactionalID    = RequiredOperation{OpWrite, ResourceTransactionalID}
	DescribeTransactionalID = RequiredOperation{OpDescribe, ResourceTransactionalID}
)

// Action is the input of the authorizer: an operation of a principal on one resource.
type Action struct {
	Principal wire.Principal
	Address   netip.Addr // IP address of the client, in the form that authz.Canonical returns
	RequiredOperation
	Name string // name of the resource; "" means any resource of the type
}

// errDenied maps each resource type to its authorization error.
var errDenied = map[ResourceType]error{
	ResourceTopic:           ErrTopicAuthorization,
	ResourceGroup:           errGroupAuthorization,
	ResourceCluster:         errClusterAuthorization,
	ResourceTransactionalID: ErrTransactionalIDAuthorization,
}

// errUnlistedOperation means that a handler has authorized an operation that its row in the table
// does not list. This is a bug in the handler, and the operation is denied.
var errUnlistedOperation = errors.New("handler authorizes an operation that table.go does not list")

// Access authorizes the operations of clients. It also logs denials, and errors caused by faults of
// the broker. The handlers of all APIs embed it.
type Access struct {
	// Authorizer reports whether a client may perform an action. If it is nil, every client may
	// perform every action.
	Authorizer func(Action) bool
	// Explain returns why an action was denied, for the audit log. If it is nil, no reason is logged.
	Explain func(Action) string
	// PlainPeers reports whether clients of a listener may act as brokers without authentication. If
	// it is nil, they may not.
	PlainPeers func(listener string) bool
	Logger     *slog.Logger
	// Row returns an API's name and the operations that its handler authorizes. If the API is not
	// supported, it returns no operations.
	Row   func(key int16) (name string, required []RequiredOperation)
	audit auditLog
}

// Authorize returns nil if the client may perform an operation on the named resource, and otherwise
// the error for the resource's type.
//
// A handler calls Authorize once for each resource before it uses the resource. In the response,
// the error applies only to that resource. For a request that acts on the whole cluster, the
// handler passes ClusterName.
func (a *Access) Authorize(req *wire.Request, required RequiredOperation, name string) error {
	ok, err := a.probe(req, required, name)
	if err == nil && !ok {
		a.AuditDenied(req, required, name)
		err = errDenied[required.Type]
	}
	return err
}

// May reports whether the client may perform an operation on a resource that its request does not
// name. Handlers use it to filter lists, and to check whether one of several alternative operations
// is allowed. A denial is not written to the audit log, because the client has not tried to use the
// resource.
func (a *Access) May(req *wire.Request, required RequiredOperation, name string) bool {
	ok, err := a.probe(req, required, name)
	return ok && err == nil
}

// probe checks that the API's row in the table lists the operation, and then calls allowed.
func (a *Access) probe(req *wire.Request, required RequiredOperation, name string) (bool, error) {
	if a.Authorizer == nil {
		return true, nil
	}
	if _, listed := a.Row(req.Key); !slices.Contains(listed, required) {
		return false, fmt.Errorf("%w: api key %d, %+v", errUnlistedOperation, req.Key, required)
	}
	return a.allowed(req, required, name), nil
}

// allowed reports whether the client may perform an operation on the named resource. No other
// function calls the authorizer. Without an authorizer, every client may perform every operation.
func (a *Access) allowed(req *wire.Request, required RequiredOperation, name string) bool {
	if required == ClusterAction {
		if s := req.Session; s != nil && s.Role == wire.RoleBroker {
			return true // the client's certificate proves that it is a broker of this cluster
		}
		if a.PlainPeers != nil && a.PlainPeers(req.Listener) {
			return true // some brokers do not have a certificate yet
		}
	}
	return a.Authorizer == nil || a.Authorizer(Action{
		Principal: req.Principal(), Address: req.Address,
		RequiredOperation: required, Name: name,
	})
}

// AuthorizeCreate returns nil if the client may create the named topic. As in Kafka, the client
// needs OpCreate on either the cluster or the topic.
func (a *Access) AuthorizeCreate(req *wire.Request, name string) error {
	if a.May(req, CreateCluster, ClusterName) {
		return nil
	}
	return a.Authorize(req, CreateTopic, name)
}

// operations lists the operations that Kafka defines for each resource type (KIP-430).
var operations = map[ResourceType][]Operation{
	ResourceTopic: {OpRead, OpWrite, OpCreate, OpDelete, OpAlter, OpDescribe, OpDescribeConfigs,
		OpAlterConfigs},
	ResourceGroup: {OpRead, OpDelete, OpDescribe, OpDescribeConfigs, OpAlterConfigs},
	ResourceCluster: {OpCreate, OpAlter, OpDescribe, OpClusterAction, OpDescribeConfigs,
		OpAlterConfigs, OpIdempotentWrite},
}

// OperationsOmitted is the bit field in a response if the request does not ask for authorized
// operations (KIP-430).
const OperationsOmitted = -1 << 31

// AuthorizedOperations returns the operations that the client may perform on a resource, as the bit
// field of KIP-430: bit n represents the AclOperation with number n.
func (a *Access) AuthorizedOperations(req *wire.Request, kind ResourceType,
	name string) (bits int32) {
	for _, op := range operations[kind] {
		if a.allowed(req, RequiredOperation{op, kind}, name) {
			bits |= 1 << op
		}
	}
	return bits
}
