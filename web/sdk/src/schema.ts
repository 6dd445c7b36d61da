// Written by scripts/generate_sdk_schema.py from spec/hubbub.proto.

/** Name, number, message of the client, message of the hub. */
export const EVENTS = `\
Ping 1 25 25
Pong 2 25 25
Close 3 25 
Error 4  57
Disconnect 5  56
SessionInfo 10  55
Auth 11 24 54
SessionRestore 12 23 23
SessionRestored 13  53
Subscribe 20 22 52
Unsubscribe 21 21 51
Publish 22 20 49
Ack 23  50
History 24 19 48
ChannelReset 25  43
Presence 30 12 38
Join 31  38
Leave 32  38
Occupancy 33  37
DocumentGet 40 14 42
DocumentChange 41 13 41
DocumentUpdated 42  40
DocumentInfo 43  39
NotificationNew 50  36
NotificationRead 51  35
NotificationInfo 52 11 34
MarkNotificationAsRead 53 10 33
NotificationList 54 9 32
RPC 60 3 27
StreamEnqueue 61 2 26
TopicSubscribe 70 8 
TopicUnsubscribe 71 7 
TopicGet 72 6 
TopicAck 73 5 
ProducerOpen 74 4 
TopicSubscription 76  31
TopicMessages 77  30
TopicAcked 78  29
ProducerOpened 79  28
SetFilter 120 18 47
UnsetFilter 121 17 46
ListFilters 122 16 45
HCommand 140 1 1
HResult 141 0 0
Threads 150 15 44`;

export const MESSAGES = `\
reqID i,result j
reqID i,command j
reqID i,stream,event,payload p,contentType
reqID i,method,payload p,contentType,timeout d
reqID i,topic,producer
reqID i,topic,name,serials *,upTo ?,consumer,giveBack b
reqID i,topic,name,limit i?,wait d,consumer,ackUpTo ?,after ?
reqID i,topic,name
reqID i,topic,name,options <58>,start
reqID i,channel,unread b,after i?,before i?,limit i
reqID i?,channel,ids *,upTo i?,all b
reqID i,channel
reqID i,channel,data j?
reqID i?,channel,ops <59>*,expectedVersion i?,epoch ?,changeID,producer <60>
reqID i,channel,path,since i?,epoch ?,at i?,atTime i?
reqID i,channel,after ?,limit i,status ?
reqID i,channel ?
reqID i,name,channel ?
reqID i,name,channel ?,template j?,radius d?,relevant b?,condition j?
reqID i,channel,after ?,before ?,afterTime i?,beforeTime i?,epoch ?,limit i,filter j?,conversationID ?
publishes <61>*
reqID i,channels *
reqID i,channels <62>*
restoreKey,reqID i,positions <63>*
reqID i,token,credentials p
reqID i
reqID i,msgID
reqID i,payload p,contentType
reqID i,topic,producer,fence,sequence
reqID i,answer,topic,name,floor
reqID i,answer,topic,name,messages <64>*
reqID i,answer,topic,name,options <58>,epoch,floor ?,head ?,lag i?,handedOut i?,createdAt i?,redeliveries i?,deadLetters i?,missed i?,new b
reqID i,channel,notifications <65>*,more b,epoch,revision i,unread i,total i,newest i
reqID i,success b,marked i,unread i,unknown *,error <66>
reqID i,channel,epoch,revision i,unread i,total i,newest i
channel,revision i,ids *,upTo i?,readAt i,readBy
channel,revision i,notification <65>
channel,count i
channel,presence <67>*,reqID i,error <66>
channel,epoch,version i,ts i,bytes i
channel,epoch,version i,ts i,author ?,changeID,ops <59>*
reqID i,channel,success b,epoch,version i?,ts i,duplicate b,error <66>,opIndex i?,reason ?
reqID i,channel,epoch,version i,ts i,document v,updates <40>*,more b,error <66>
channel,epoch,serial,recovered b
reqID i,channel,threads <68>*,epoch,more b,error <66>
reqID i,filters <69>*
reqID i,name,channel ?,count i
reqID i,name,channel ?
reqID i,channel,messages <49>*,epoch,head,recovered b,more b,error <66>,next ?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,retained b,previousSerial ?,attributes A3
published <71>*
reqID i,unsubscribedChannels *,failures <72>*
reqID i,subscribedChannels *,failures <72>*,channels <73>*,patterns <74>*
userID,authorizations <75>*,extra j,subscribedChannels *,rpcs *,sessionID,reqID i,channels <73>*,failures <72>*,patterns <74>*,expiresAt i
reqID i,success b,userID,token,channelAuthorizations <75>*,rpcAuthorizations *,extra j,error <66>,expiresAt i
hubID,sessionID,hubAllowAnonymous b,hubAllowUserChannel b,defaultPublic b,authenticated b,protocolVersion i,userID,pingInterval i,maxMessageBytes i,expiresAt i,maxChannels i,messagesPerSecond d
code,reason,reconnect b,retryAfter d
reqID i,error <66>
shared b?,leaseSeconds d?,maxUnacknowledged i?,maxDeliveries i?,deadLetters ?
op,path,from ?,value v
id,sequence,fence ?
channel,event,payload p,extra <76>,reqID i?,contentType,producer <60>,attributes A,securityToken,idempotencyKey
channel,timestamp i?,serial ?,epoch ?,documentVersion i?,documentEpoch ?,byPattern b,presence j?,token
channel,epoch,serial,documentVersion i?,documentEpoch ?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,deliveries i3,redelivered b,attributes A
id,ts i,event,payload p,contentType,author,expiresAt i?,read b,readAt i?,readBy
code,message,retry b,retryAfter d
sessionID,userID,extra j,ts i,data j?
conversationID,first <49>,messages i,lastSerial,updatedAt i,status ?
name,channel ?,template j?,radius d?,relevant b?,condition j?
subtype,author,sender,receiver,conversationID,refersTo,priority i?,relevantUntil i?,ttl i?,language,location j,headers j,deliveryPolicy
reqID i,success b,msgID ?,channelSerial ?,error <66>,duplicate b
channel,error <66>
channel,epoch,serial,recovered b
pattern,matches i,recovered b
channel,publish b,subscribe b
store b,push b,retain b,transient b,pushOptions j`;

export const ATTRIBUTES = 70;
