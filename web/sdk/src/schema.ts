// Written by scripts/generate_sdk_schema.py from spec/hubbub.proto.

/** Name, number, message of the client, message of the hub. */
export const EVENTS = `\
Ping 1 0 0
Pong 2 0 0
Close 3 0 
Error 4  22
Disconnect 5  23
SessionInfo 10  24
Auth 11 1 25
SessionRestore 12 2 2
SessionRestored 13  26
Subscribe 20 3 27
Unsubscribe 21 4 28
Publish 22 5 30
Ack 23  29
History 24 6 31
ChannelReset 25  34
Presence 30 9 39
Join 31  39
Leave 32  39
Occupancy 33  40
DocumentGet 40 10 35
DocumentChange 41 11 36
DocumentUpdated 42  37
DocumentInfo 43  38
NotificationNew 50  45
NotificationRead 51  46
NotificationInfo 52 18 47
MarkNotificationAsRead 53 17 48
NotificationList 54 19 49
RPC 60 20 50
StreamEnqueue 61 21 51
TopicSubscribe 70 12 
TopicUnsubscribe 71 13 
TopicGet 72 14 
TopicAck 73 15 
ProducerOpen 74 16 
TopicSubscription 76  41
TopicMessages 77  42
TopicAcked 78  43
ProducerOpened 79  44
SetFilter 120 7 32
UnsetFilter 121 8 33`;

export const MESSAGES = `\
reqID i
reqID i,token,credentials c
restoreKey,reqID i,positions <52>*
reqID i,channels <53>*
reqID i,channels *
publishes <54>*
reqID i,channel,after ?,before ?,afterTime i?,beforeTime i?,epoch ?,limit i,filter j?,conversationID ?
reqID i,name,channel ?,template j?,radius d?,relevant b?,condition j?
reqID i,name,channel ?
reqID i,channel,data j?
reqID i,channel,path,since i?,epoch ?,at i?,atTime i?
reqID i?,channel,ops <55>*,expectedVersion i?,epoch ?,changeID,producer <56>
reqID i,topic,name,options <57>,start
reqID i,topic,name
reqID i,topic,name,limit i?,wait d,consumer,ackUpTo ?,after ?
reqID i,topic,name,serials *,upTo ?,consumer,giveBack b
reqID i,topic,producer
reqID i?,channel,ids *,upTo i?,all b
reqID i,channel
reqID i,channel,unread b,after i?,before i?,limit i
reqID i,method,payload p,contentType,timeout d
reqID i,stream,event,payload p,contentType
reqID i,error <58>
code,reason,reconnect b,retryAfter d
hubID,sessionID,hubAllowAnonymous b,hubAllowUserChannel b,defaultPublic b,authenticated b,protocolVersion i,userID,pingInterval i,maxMessageBytes i,expiresAt i,maxChannels i,messagesPerSecond d
reqID i,success b,userID,token,channelAuthorizations <59>*,rpcAuthorizations *,extra j,error <58>,expiresAt i
userID,authorizations <59>*,extra j,subscribedChannels *,rpcs *,sessionID,reqID i,channels <60>*,failures <61>*,patterns <62>*,expiresAt i
reqID i,subscribedChannels *,failures <61>*,channels <60>*,patterns <62>*
reqID i,unsubscribedChannels *,failures <61>*
published <63>*
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,retained b,previousSerial ?,attributes A3
reqID i,channel,messages <30>*,epoch,head,recovered b,more b,error <58>,next ?
reqID i,name,channel ?
reqID i,name,channel ?,count i
channel,epoch,serial,recovered b
reqID i,channel,epoch,version i,ts i,document v,updates <37>*,more b,error <58>
reqID i,channel,success b,epoch,version i?,ts i,duplicate b,error <58>,opIndex i?,reason ?
channel,epoch,version i,ts i,author ?,changeID,ops <55>*
channel,epoch,version i,ts i,bytes i
channel,presence <65>*,reqID i,error <58>
channel,count i
reqID i,answer,topic,name,options <57>,epoch,floor ?,head ?,lag i?,handedOut i?,createdAt i?,redeliveries i?,deadLetters i?,missed i?,new b
reqID i,answer,topic,name,messages <66>*
reqID i,answer,topic,name,floor
reqID i,topic,producer,fence,sequence
channel,revision i,notification <67>
channel,revision i,ids *,upTo i?,readAt i,readBy
reqID i,channel,epoch,revision i,unread i,total i,newest i
reqID i,success b,marked i,unread i,unknown *,error <58>
reqID i,channel,notifications <67>*,more b,epoch,revision i,unread i,total i,newest i
reqID i,payload p,contentType
reqID i,msgID
channel,epoch,serial,documentVersion i?,documentEpoch ?
channel,timestamp i?,serial ?,epoch ?,documentVersion i?,documentEpoch ?,byPattern b,presence j?,token
channel,event,payload p,extra <68>,reqID i?,contentType,producer <56>,attributes A,securityToken,idempotencyKey
op,path,from ?,value v
id,sequence,fence ?
shared b?,leaseSeconds d?,maxUnacknowledged i?,maxDeliveries i?,deadLetters ?
code,message,retry b,retryAfter d
channel,publish b,subscribe b
channel,epoch,serial,recovered b
channel,error <58>
pattern,matches i,recovered b
reqID i,success b,msgID ?,channelSerial ?,error <58>,duplicate b
subtype,author,sender,receiver,conversationID,refersTo,priority i?,relevantUntil i?,ttl i?,language,location j,headers j,deliveryPolicy
sessionID,userID,extra j,ts i,data j?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,deliveries i3,redelivered b,attributes A
id,ts i,event,payload p,contentType,author,expiresAt i?,read b,readAt i?,readBy
store b,push b,retain b,transient b,pushOptions j`;

export const ATTRIBUTES = 64;
