// Written by scripts/generate_sdk_schema.py from spec/hubbub.proto.

/** Name, number, message of the client, message of the hub. */
export const EVENTS = `\
Ping 1 26 26
Pong 2 26 26
Close 3 26 
Error 4  59
Disconnect 5  58
SessionInfo 10  57
Auth 11 25 56
SessionRestore 12 24 24
SessionRestored 13  55
Subscribe 20 23 54
Unsubscribe 21 22 53
Publish 22 21 51
Ack 23  52
History 24 20 50
ChannelReset 25  44
Presence 30 12 39
Join 31  39
Leave 32  39
Occupancy 33  38
DocumentGet 40 14 43
DocumentChange 41 13 42
DocumentUpdated 42  41
DocumentInfo 43  40
NotificationNew 50  37
NotificationRead 51  36
NotificationInfo 52 11 35
MarkNotificationAsRead 53 10 34
NotificationList 54 9 33
RPC 60 3 28
StreamEnqueue 61 2 27
TopicSubscribe 70 8 
TopicUnsubscribe 71 7 
TopicGet 72 6 
TopicAck 73 5 
ProducerOpen 74 4 
TopicSubscription 76  32
TopicMessages 77  31
TopicAcked 78  30
ProducerOpened 79  29
SetFilter 120 19 49
UnsetFilter 121 18 48
ListFilters 122 17 47
HCommand 140 1 1
HResult 141 0 0
Threads 150 16 46
Search 151 15 45`;

export const MESSAGES = `\
reqID i,result j
reqID i,command j
reqID i,stream,event,payload p,contentType
reqID i,method,payload p,contentType,timeout d
reqID i,topic,producer
reqID i,topic,name,serials *,upTo ?,consumer,giveBack b
reqID i,topic,name,limit i?,wait d,consumer,ackUpTo ?,after ?
reqID i,topic,name
reqID i,topic,name,options <60>,start
reqID i,channel,unread b,after i?,before i?,limit i
reqID i?,channel,ids *,upTo i?,all b
reqID i,channel
reqID i,channel,data j?
reqID i?,channel,ops <61>*,expectedVersion i?,epoch ?,changeID,producer <62>
reqID i,channel,path,since i?,epoch ?,at i?,atTime i?
reqID i,query,channel ?,since i?,until i?,filter j?,order,limit i,cursor ?
reqID i,channel,after ?,limit i,status ?
reqID i,channel ?
reqID i,name,channel ?
reqID i,name,channel ?,template j?,radius d?,relevant b?,condition j?
reqID i,channel,after ?,before ?,afterTime i?,beforeTime i?,epoch ?,limit i,filter j?,conversationID ?
publishes <63>*
reqID i,channels *
reqID i,channels <64>*
restoreKey,reqID i,positions <65>*
reqID i,token,credentials p
reqID i
reqID i,msgID
reqID i,payload p,contentType
reqID i,topic,producer,fence,sequence
reqID i,answer,topic,name,floor
reqID i,answer,topic,name,messages <66>*
reqID i,answer,topic,name,options <60>,epoch,floor ?,head ?,lag i?,handedOut i?,createdAt i?,redeliveries i?,deadLetters i?,missed i?,new b
reqID i,channel,notifications <67>*,more b,epoch,revision i,unread i,total i,newest i
reqID i,success b,marked i,unread i,unknown *,error <68>
reqID i,channel,epoch,revision i,unread i,total i,newest i
channel,revision i,ids *,upTo i?,readAt i,readBy
channel,revision i,notification <67>
channel,count i
channel,presence <69>*,reqID i,error <68>
channel,epoch,version i,ts i,bytes i
channel,epoch,version i,ts i,author ?,changeID,ops <61>*
reqID i,channel,success b,epoch,version i?,ts i,duplicate b,error <68>,opIndex i?,reason ?
reqID i,channel,epoch,version i,ts i,document v,updates <41>*,more b,error <68>
channel,epoch,serial,recovered b
reqID i,hits <70>*,cursor ?,behind i,error <68>
reqID i,channel,threads <71>*,epoch,more b,error <68>
reqID i,filters <72>*
reqID i,name,channel ?,count i
reqID i,name,channel ?
reqID i,channel,messages <51>*,epoch,head,recovered b,more b,error <68>,next ?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,retained b,previousSerial ?,attributes A3
published <74>*
reqID i,unsubscribedChannels *,failures <75>*
reqID i,subscribedChannels *,failures <75>*,channels <76>*,patterns <77>*
userID,authorizations <78>*,extra j,subscribedChannels *,rpcs *,sessionID,reqID i,channels <76>*,failures <75>*,patterns <77>*,expiresAt i
reqID i,success b,userID,token,channelAuthorizations <78>*,rpcAuthorizations *,extra j,error <68>,expiresAt i
hubID,sessionID,hubAllowAnonymous b,hubAllowUserChannel b,defaultPublic b,authenticated b,protocolVersion i,userID,pingInterval i,maxMessageBytes i,expiresAt i,maxChannels i,messagesPerSecond d
code,reason,reconnect b,retryAfter d
reqID i,error <68>
shared b?,leaseSeconds d?,maxUnacknowledged i?,maxDeliveries i?,deadLetters ?
op,path,from ?,value v
id,sequence,fence ?
channel,event,payload p,extra <79>,reqID i?,contentType,producer <62>,attributes A,securityToken,idempotencyKey
channel,timestamp i?,serial ?,epoch ?,documentVersion i?,documentEpoch ?,byPattern b,presence j?,token
channel,epoch,serial,documentVersion i?,documentEpoch ?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,deliveries i3,redelivered b,attributes A
id,ts i,event,payload p,contentType,author,expiresAt i?,read b,readAt i?,readBy
code,message,retry b,retryAfter d
sessionID,userID,extra j,ts i,data j?
message <51>,score d
conversationID,first <51>,messages i,lastSerial,updatedAt i,status ?
name,channel ?,template j?,radius d?,relevant b?,condition j?
subtype,author,sender,receiver,conversationID,refersTo,priority i?,relevantUntil i?,ttl i?,language,location j,headers j,deliveryPolicy
reqID i,success b,msgID ?,channelSerial ?,error <68>,duplicate b
channel,error <68>
channel,epoch,serial,recovered b
pattern,matches i,recovered b
channel,publish b,subscribe b
store b,push b,retain b,transient b,pushOptions j`;

export const ATTRIBUTES = 73;
