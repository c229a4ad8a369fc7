package api

// The keys of the APIs that this broker serves.
const (
	KeyProduce                 int16 = 0
	KeyFetch                   int16 = 1
	KeyListOffsets             int16 = 2
	KeyMetadata                int16 = 3
	KeyOffsetCommit            int16 = 8
	KeyOffsetFetch             int16 = 9
	KeyFindCoordinator         int16 = 10
	KeyJoinGroup               int16 = 11
	KeyHeartbeat               int16 = 12
	KeyLeaveGroup              int16 = 13
	KeySyncGroup               int16 = 14
	KeyDescribeGroups          int16 = 15
	KeyListGroups              int16 = 16
	KeySASLHandshake           int16 = 17
	KeyAPIVersions             int16 = 18
	KeyCreateTopics            int16 = 19
	KeyDeleteTopics            int16 = 20
	KeyDeleteRecords           int16 = 21
	KeyInitProducerID          int16 = 22
	KeyOffsetForEpoch          int16 = 23
	KeyAddPartitionsToTxn      int16 = 24
	KeyAddOffsetsToTxn         int16 = 25
	KeyEndTxn                  int16 = 26
	KeyWriteTxnMarkers         int16 = 27
	KeyTxnOffsetCommit         int16 = 28
	KeyDescribeACLs            int16 = 29
	KeyCreateACLs              int16 = 30
	KeyDeleteACLs              int16 = 31
	KeyDescribeConfigs         int16 = 32
	KeyAlterConfigs            int16 = 33
	KeyAlterReplicaLogDirs     int16 = 34
	KeyDescribeLogDirs         int16 = 35
	KeySASLAuthenticate        int16 = 36
	KeyCreatePartitions        int16 = 37
	KeyCreateToken             int16 = 38
	KeyRenewToken              int16 = 39
	KeyExpireToken             int16 = 40
	KeyDescribeToken           int16 = 41
	KeyDeleteGroups            int16 = 42
	KeyElectLeaders            int16 = 43
	KeyIncrementalAlterConfigs int16 = 44
	KeyAlterReassignments      int16 = 45
	KeyListReassignments       int16 = 46
	KeyOffsetDelete            int16 = 47
	KeyDescribeClientQuotas    int16 = 48
	KeyAlterClientQuotas       int16 = 49
	KeyDescribeSCRAM           int16 = 50
	KeyAlterSCRAM              int16 = 51
	KeyUpdateFeatures          int16 = 57
	KeyDescribeCluster         int16 = 60
	KeyDescribeProducers       int16 = 61
	KeyDescribeTransactions    int16 = 65
	KeyListTransactions        int16 = 66
	KeyConsumerHeartbeat       int16 = 68
	KeyConsumerDescribe        int16 = 69
	KeyListConfigResources     int16 = 74
	KeyDescribePartitions      int16 = 75
)

// PeerAddVersion is the first AddPartitionsToTxn version that brokers send to each other.
const PeerAddVersion = 4
