package handler

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"heartwood.dev/heartwood/internal/wire"
)

// Operation is what a request does to a resource; the numbers are those of Kafka's AclOperation.
type Operation int8

// The operations that requests need.
const (
	OpRead            Operation = 3
	OpWrite           Operation = 4
	OpCreate          Operation = 5
	OpDelete          Operation = 6
	OpAlter           Operation = 7
	OpDescribe        Operation = 8
	OpClusterAction   Operation = 9
	OpDescribeConfigs Operation = 10
	OpAlterConfigs    Operation = 11
	OpIdempotentWrite Operation = 12
)

// ResourceType is a kind of resource; the numbers are those of Kafka's ResourceType.
type ResourceType int8

// The types of resources that requests use.
const (
	ResourceTopic           ResourceType = 2
	ResourceGroup           ResourceType = 3
	ResourceCluster         ResourceType = 4
	ResourceTransactionalID ResourceType = 5
)

const (
	// clusterName is the name of the one resource of type cluster, as in Kafka.
	clusterName = "kafka-cluster"
	// anyName asks for a right on at least one resource of a type (KIP-679).
	anyName = ""
)

// Right is an operation on resources of a type. A row of the table lists the rights that its
// requests need.
type Right struct {
	Operation Operation
	Type      ResourceType
}

var (
	readTopic            = Right{OpRead, ResourceTopic}
	writeTopic           = Right{OpWrite, ResourceTopic}
	createTopic          = Right{OpCreate, ResourceTopic}
	deleteTopic          = Right{OpDelete, ResourceTopic}
	alterTopic           = Right{OpAlter, ResourceTopic}
	describeTopic        = Right{OpDescribe, ResourceTopic}
	describeTopicConfigs = Right{OpDescribeConfigs, ResourceTopic}
	alterTopicConfigs    = Right{OpAlterConfigs, ResourceTopic}

	readGroup     = Right{OpRead, ResourceGroup}
	deleteGroup   = Right{OpDelete, ResourceGroup}
	describeGroup = Right{OpDescribe, ResourceGroup}

	createCluster          = Right{OpCreate, ResourceCluster}
	alterCluster           = Right{OpAlter, ResourceCluster}
	describeCluster        = Right{OpDescribe, ResourceCluster}
	clusterAction          = Right{OpClusterAction, ResourceCluster}
	describeClusterConfigs = Right{OpDescribeConfigs, ResourceCluster}
	alterClusterConfigs    = Right{OpAlterConfigs, ResourceCluster}
	idempotentWrite        = Right{OpIdempotentWrite, ResourceCluster}

	writeTransactionalID    = Right{OpWrite, ResourceTransactionalID}
	describeTransactionalID = Right{OpDescribe, ResourceTransactionalID}
)

// Action is a question to the authorizer.
type Action struct {
	Principal wire.Principal
	Listener  string
	Remote    net.Addr // of the client
	Right
	Name string // of the resource; "": any resource of the type
}

// errDenied has the error of each type of resource that a request may not use.
var errDenied = map[ResourceType]error{
	ResourceTopic:           errTopicAuthorization,
	ResourceGroup:           errGroupAuthorization,
	ResourceCluster:         errClusterAuthorization,
	ResourceTransactionalID: errTransactionalIDAuthorization,
}

// errUnlistedRight denies a right that the row of the request does not name: the handler and
// table.go disagree.
var errUnlistedRight = errors.New("right is not in the API's row of the table")

// authorize returns nil if the client may use a resource, else the error of the resource's type.
//
// Handlers call it once for each resource that they use, before they use it, and answer its error
// for that resource alone. A request that acts on the cluster as a whole calls it once, with
// clusterName.
func (h *Handler) authorize(req *wire.Request, right Right, name string) error {
	if h.opts.Authorize == nil {
		return nil
	}
	if row := h.api(req.Key); row == nil || !slices.Contains(row.needs, right) {
		return fmt.Errorf("%w: api key %d, %+v", errUnlistedRight, req.Key, right)
	}
	if h.allowed(req, right, name) {
		return nil
	}
	return errDenied[right.Type]
}

// allowed reports whether the client has a right on a resource. It is the only place where the
// authorizer is called; without one every client has every right.
func (h *Handler) allowed(req *wire.Request, right Right, name string) bool {
	return h.opts.Authorize == nil || h.opts.Authorize(Action{
		Principal: req.Principal, Listener: req.Listener, Remote: req.Remote, Right: right,
		Name: name,
	})
}

// authorizeCreate returns nil if the client may create a topic: with the right to create in the
// cluster, or to create that topic.
func (h *Handler) authorizeCreate(req *wire.Request, name string) error {
	if h.authorize(req, createCluster, clusterName) == nil {
		return nil
	}
	return h.authorize(req, createTopic, name)
}

// operations lists the operations that exist for each type of resource (KIP-430).
var operations = map[ResourceType][]Operation{
	ResourceTopic: {OpRead, OpWrite, OpCreate, OpDelete, OpAlter, OpDescribe, OpDescribeConfigs,
		OpAlterConfigs},
	ResourceGroup:   {OpRead, OpDelete, OpDescribe},
	ResourceCluster: {OpCreate, OpAlter, OpDescribe, OpDescribeConfigs, OpIdempotentWrite},
}

// operationsOmitted is the value of a response whose request did not ask for operations.
const operationsOmitted = -1 << 31

// authorizedOperations returns the operations of a resource that the client may do, as the bit
// field of KIP-430: bit n is the AclOperation of number n.
func (h *Handler) authorizedOperations(req *wire.Request, kind ResourceType,
	name string) (bits int32) {
	for _, op := range operations[kind] {
		if h.allowed(req, Right{op, kind}, name) {
			bits |= 1 << op
		}
	}
	return bits
}
