package table

import (
	"fmt"
	"strings"
)

// The layout of the table. Every key is made here and nowhere else.
//
//	entity            pk               sk                     index
//	user              U#<user>         USER                   EMAIL#<email> / USER; listed under USERS
//	e-mail address    EMAIL#<email>    EMAIL                  makes addresses unique
//	user's API key    U#<user>         KEY                    the encrypted copy that can be read back
//	API key           K#<sha256>       KEY                    found by hash
//	membership        U#<user>         G#<group>
//	folder            U#<user>         F#<folder>
//	group             G#<group>        META                   GROUPS / name
//	member of group   G#<group>        U#<user>
//	setting           CONFIG           <name>
//	model entry       MODEL#<id>       META                   MODELS / id
//	tool              TOOL#<id>        META SRC VALVES UV#<user>   TOOLS / id (META)
//	file              F#<file>         META                   U#<user>#F / created
//	idempotency key   U#<user>         I#<sha256>             which runs a repeated request means
//	chat              C#<chat>         META                   U#<user>#C / updated
//	message           C#<chat>         M#<message>
//	run               C#<chat>         T#<run>                OPEN#<0-9> / deadline, while not closed
//	run's work        R#<run>          REQ W W#<round> W#<round>#<call> E#<time>#<call>#<n>
//	run's log         L#<run>          <round>#<attempt>#<n>
//	question          R#<run>          Q#<round>#<call>#<n>   of a tool to the user
//	run's event log   V#<run>          <number>               while somebody follows by numbers
//	connection        U#<user>         S#<connection>
//	                  S#<connection>   U#<user>               CONNS#<0-9> / connection
//	asked by ack      S#<connection>   A#<id>                 which question an acknowledgement answers
//	model in use      USAGE            <connection>
//
// Ids that clients choose (messages, temporary chats) are escaped, so no id can reach into another key.

// MaxID is the longest id, in bytes, that a key takes; longer ones are refused where they enter.
const MaxID = 256

var escape = strings.NewReplacer("%", "%25", "#", "%23")

// The sort keys that stand alone.
const (
	skMeta    = "META"
	skKey     = "KEY"
	skSource  = "SRC"
	skValves  = "VALVES"
	skRequest = "REQ"
	skWork    = "W"
)

// Names of index partitions that hold one kind of thing each.
const (
	IndexUsers  = "USERS"
	IndexGroups = "GROUPS"
	IndexModels = "MODELS"
	IndexTools  = "TOOLS"
)

// User is the account record.
func User(id string) Key { return Key{"U#" + escape.Replace(id), "USER"} }

// Email reserves an e-mail address.
func Email(address string) Key { return Key{"EMAIL#" + escape.Replace(address), "EMAIL"} }

// UserKey is the encrypted copy of a user's API key.
func UserKey(user string) Key { return Key{"U#" + escape.Replace(user), skKey} }

// APIKey is the record found by the hex SHA-256 of a key.
func APIKey(hash string) Key { return Key{"K#" + hash, skKey} }

// Membership says that the user is in the group; it lies with the user.
func Membership(user, group string) Key {
	return Key{"U#" + escape.Replace(user), "G#" + escape.Replace(group)}
}

// MembershipPrefix is the sort-key prefix of a user's memberships.
const MembershipPrefix = "G#"

// Folder is a folder of a user's chats; it lies with the user.
func Folder(user, id string) Key {
	return Key{"U#" + escape.Replace(user), FolderPrefix + escape.Replace(id)}
}

// FolderPrefix is the sort-key prefix of a user's folders.
const FolderPrefix = "F#"

// Group is the group record.
func Group(id string) Key { return Key{"G#" + escape.Replace(id), skMeta} }

// Member says that the user is in the group; it lies with the group.
func Member(group, user string) Key {
	return Key{"G#" + escape.Replace(group), "U#" + escape.Replace(user)}
}

// MemberPrefix is the sort-key prefix of a group's members.
const MemberPrefix = "U#"

// Config is a server-wide setting.
func Config(name string) Key { return Key{"CONFIG", name} }

// Model is a workspace model entry.
func Model(id string) Key { return Key{"MODEL#" + escape.Replace(id), skMeta} }

// Tool is a toolkit's record: all but its source and valves.
func Tool(id string) Key { return Key{"TOOL#" + escape.Replace(id), skMeta} }

// ToolSource is a toolkit's source text.
func ToolSource(id string) Key { return Key{"TOOL#" + escape.Replace(id), skSource} }

// ToolValves are the administrator's valves of a toolkit, encrypted.
func ToolValves(id string) Key { return Key{"TOOL#" + escape.Replace(id), skValves} }

// ToolUserValves are one user's valves of a toolkit, encrypted.
func ToolUserValves(id, user string) Key {
	return Key{"TOOL#" + escape.Replace(id), "UV#" + escape.Replace(user)}
}

// File is a stored file's record.
func File(id string) Key { return Key{"F#" + escape.Replace(id), skMeta} }

// UserFiles is the index partition of a user's files.
func UserFiles(user string) string { return "U#" + escape.Replace(user) + "#F" }

// Repeat is what a user's idempotency key, given by its hex SHA-256, stands for.
func Repeat(user, hash string) Key { return Key{"U#" + escape.Replace(user), "I#" + hash} }

// Chat is the chat record: all but its messages.
func Chat(id string) Key { return Key{"C#" + escape.Replace(id), skMeta} }

// UserChats is the index partition of a user's chats.
func UserChats(user string) string { return "U#" + escape.Replace(user) + "#C" }

// Message is one message of a chat.
func Message(chat, id string) Key {
	return Key{"C#" + escape.Replace(chat), MessagePrefix + escape.Replace(id)}
}

// MessagePrefix is the sort-key prefix of a chat's messages.
const MessagePrefix = "M#"

// Run is one completion's state; it lies with its chat.
func Run(chat, run string) Key { return Key{"C#" + escape.Replace(chat), RunPrefix + run} }

// RunPrefix is the sort-key prefix of a chat's runs.
const RunPrefix = "T#"

// OpenRuns is one of the index partitions that hold the runs that are not closed. Shard is 0 to 9.
func OpenRuns(shard int) string { return fmt.Sprintf("OPEN#%d", shard) }

// Shards is how many partitions the open runs are spread over.
const Shards = 10

// RunPartition begins the partition keys of runs' work.
const RunPartition = "R#"

// Request is what the caller sent, with the run's place (chat, message, user).
func Request(run string) Key { return Key{"R#" + run, skRequest} }

// Work is what Prepare made of the request.
func Work(run string) Key { return Key{"R#" + run, skWork} }

// Round is what the model answered in one round, counted from 0.
func Round(run string, round int) Key { return Key{"R#" + run, fmt.Sprintf("W#%04d", round)} }

// Call is one tool call of a round and its result.
func Call(run string, round, index int) Key {
	return Key{"R#" + run, fmt.Sprintf("W#%04d#%04d", round, index)}
}

// Event is one stored tool event of a run: its time in Unix milliseconds orders events, the rest makes a repeated one the same item.
func Event(run string, at int64, round, index, n int) Key {
	return Key{"R#" + run, fmt.Sprintf("%s%013d#%04d#%04d#%06d", EventPrefix, at, round, index, n)}
}

// EventPrefix is the sort-key prefix of a run's stored events.
const EventPrefix = "E#"

// WorkPrefix is the sort-key prefix of what the rounds read: Work, Round and Call.
const WorkPrefix = "W"

// Log is a batch of streamed deltas of a run.
func Log(run string, round int, attempt int64, n int) Key {
	return Key{"L#" + run, fmt.Sprintf("%04d#%06d#%06d", round, attempt, n)}
}

// Question is what a call asks the user, by its number within the call.
func Question(run string, round, index, n int) Key {
	return Key{"R#" + run, fmt.Sprintf("%s%04d#%04d#%06d", QuestionPrefix, round, index, n)}
}

// QuestionPrefix is the sort-key prefix of a run's questions.
const QuestionPrefix = "Q#"

// Numbered is one batch of a run's events as those see them who follow by numbers, counted from 1.
func Numbered(run string, number int64) Key { return Key{"V#" + run, fmt.Sprintf("%010d", number)} }

// UserConnection is an open connection; it lies with its user.
func UserConnection(user, connection string) Key {
	return Key{"U#" + escape.Replace(user), ConnectionPrefix + escape.Replace(connection)}
}

// ConnectionPrefix is the sort-key prefix of a user's connections.
const ConnectionPrefix = "S#"

// Connection says whose an open connection is; one that has joined several accounts has several.
func Connection(connection, user string) Key {
	return Key{ConnectionPrefix + escape.Replace(connection), "U#" + escape.Replace(user)}
}

// Connections is one of the index partitions that hold the open connections. Shard is 0 to Shards-1.
func Connections(shard int) string { return fmt.Sprintf("CONNS#%d", shard) }

// Asked names the question that an acknowledgement of that id answers.
func Asked(connection string, id int64) Key {
	return Key{ConnectionPrefix + escape.Replace(connection), fmt.Sprintf("A#%d", id)}
}

// Usage says which model a connection's user is looking at.
func Usage(connection string) Key { return Key{"USAGE", escape.Replace(connection)} }
