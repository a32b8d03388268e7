package ipc

// Limits limit the resources of one message.
type Limits struct {
	Body     int // bytes of all buffers of a message, decompressed
	Rows     int // rows of a message
	Fields   int // fields of a schema, nested ones and dictionary values included
	Depth    int // levels of nesting of a column
	Metadata int // key/value pairs on the schema or on one field; in total at most Fields more
}
