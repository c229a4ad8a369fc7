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

// Operation is what a request does to a resource.
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

// The types of resources that handlers authorize operations on.
const (
	ResourceTopic           = authz.ResourceTopic
	ResourceGroup           = authz.ResourceGroup
	ResourceCluster         = authz.ResourceCluster
	ResourceTransactionalID = authz.ResourceTransactionalID
)

const (
	// ClusterName is the name of the only resource of type cluster, as in Kafka.
	ClusterName = authz.ClusterName
	// AnyName is the name in an Action that asks whether the principal may perform the operation on
	// at least one resource of the type (KIP-679).
	AnyName = ""
)

// RequiredOperation is an operation and the type of the resources that it acts on. Each row of
// table lists the operations that a client must be allowed to perform for its requests to succeed.
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

// Action is what the authorizer allows or denies: an operation of a principal on one resource.
type Action struct {
	Principal wire.Principal
	Address   netip.Addr // IP address of the client, in the form of authz.Canonical
	RequiredOperation
	Name string // name of the resource; "" stands for any resource of the type
}

// errDenied maps the type of a resource to the error of a client that may not use the resource.
var errDenied = map[ResourceType]error{
	ResourceTopic:           ErrTopicAuthorization,
	ResourceGroup:           errGroupAuthorization,
	ResourceCluster:         errClusterAuthorization,
	ResourceTransactionalID: ErrTransactionalIDAuthorization,
}

// errUnlistedOperation is the error for an operation that the API's row of table does not list. It
// is a fault of the handler's code, and the operation is denied.
var errUnlistedOperation = errors.New("handler authorizes an operation that table.go does not list")

// Access decides what clients may do. It logs denials, and faults of the broker. The handlers of
// all APIs contain it.
type Access struct {
	// Authorizer reports whether a client may perform an action. If it is nil, every client may
	// perform every action.
	Authorizer func(Action) bool
	// Explain returns the reason why an action was denied, for the audit log; nil: none is logged.
	Explain func(Action) string
	// PlainPeers reports whether clients of a listener may act as brokers without authentication;
	// nil: none may.
	PlainPeers func(listener string) bool
	Logger     *slog.Logger
	// Row returns the name of an API and the operations that its handler authorizes; none for an
	// API that is not served.
	Row   func(key int16) (name string, required []RequiredOperation)
	audit auditLog
}

// Authorize returns nil if the client may perform an operation on the named resource, otherwise the
// error of the resource's type.
//
// A handler calls Authorize once for each resource, before it uses the resource, and returns the
// error for that resource only. A request that acts on the whole cluster passes ClusterName.
func (a *Access) Authorize(req *wire.Request, required RequiredOperation, name string) error {
	ok, err := a.probe(req, required, name)
	if err == nil && !ok {
		a.AuditDenied(req, required, name)
		err = errDenied[required.Type]
	}
	return err
}

// May reports whether the client may perform an operation on a resource that it has not named: for
// a list that contains only some resources, or before an alternative operation is authorized. Such
// a denial is not an attempt to use the resource, so it is not in the audit log.
func (a *Access) May(req *wire.Request, required RequiredOperation, name string) bool {
	ok, err := a.probe(req, required, name)
	return ok && err == nil
}

// probe calls allowed, after a check that the API's row in table lists the operation.
func (a *Access) probe(req *wire.Request, required RequiredOperation, name string) (bool, error) {
	if a.Authorizer == nil {
		return true, nil
	}
	if _, listed := a.Row(req.Key); !slices.Contains(listed, required) {
		return false, fmt.Errorf("%w: api key %d, %+v", errUnlistedOperation, req.Key, required)
	}
	return a.allowed(req, required, name), nil
}

// allowed reports whether the client may perform an operation on the named resource. Only allowed
// calls the authorizer. Without an authorizer, every client may perform every operation.
func (a *Access) allowed(req *wire.Request, required RequiredOperation, name string) bool {
	if required == ClusterAction {
		if s := req.Session; s != nil && s.Role == wire.RoleBroker {
			return true // the certificate proves that the client is a broker of this cluster
		}
		if a.PlainPeers != nil && a.PlainPeers(req.Listener) {
			return true // some brokers have no certificate yet
		}
	}
	return a.Authorizer == nil || a.Authorizer(Action{
		Principal: req.Principal(), Address: req.Address,
		RequiredOperation: required, Name: name,
	})
}

// AuthorizeCreate returns nil if the client may create the named topic. OpCreate suffices on the
// cluster or on the topic, as in Kafka.
func (a *Access) AuthorizeCreate(req *wire.Request, name string) error {
	if a.May(req, CreateCluster, ClusterName) {
		return nil
	}
	return a.Authorize(req, CreateTopic, name)
}

// operations lists the operations that Kafka defines for each type of resource (KIP-430).
var operations = map[ResourceType][]Operation{
	ResourceTopic: {OpRead, OpWrite, OpCreate, OpDelete, OpAlter, OpDescribe, OpDescribeConfigs,
		OpAlterConfigs},
	ResourceGroup: {OpRead, OpDelete, OpDescribe, OpDescribeConfigs, OpAlterConfigs},
	ResourceCluster: {OpCreate, OpAlter, OpDescribe, OpClusterAction, OpDescribeConfigs,
		OpAlterConfigs, OpIdempotentWrite},
}

// OperationsOmitted is the bit field of a response whose request did not ask for the authorized
// operations (KIP-430).
const OperationsOmitted = -1 << 31

// AuthorizedOperations returns the operations that the client may perform on a resource, as the bit
// field of KIP-430: bit n stands for the AclOperation with number n.
func (a *Access) AuthorizedOperations(req *wire.Request, kind ResourceType,
	name string) (bits int32) {
	for _, op := range operations[kind] {
		if a.allowed(req, RequiredOperation{op, kind}, name) {
			bits |= 1 << op
		}
	}
	return bits
}
