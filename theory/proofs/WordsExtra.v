(* How many words there are, and that no two of them are equal. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum.
From AttentionSensitivity Require Import Words.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.

Lemma count_choices_true n :
  count (fun b => count id b == 0%N) (choices n) = 1%N /\
  count (fun b => count id b == 1%N) (choices n) = n.
Proof.
elim: n => [|n [IH0 IH1]] //=; rewrite !count_cat !count_map; split.
  rewrite [X in _ + X](_ : _ = 0%N) ?addn0; first by rewrite -[RHS]IH0; apply: eq_count.
  by apply/eqP; rewrite eqn0Ngt -has_count; apply/hasPn.
transitivity (n + 1)%N; last by rewrite addn1.
congr (_ + _)%N; first by rewrite -[RHS]IH1; apply: eq_count.
by rewrite -[RHS]IH0; apply: eq_count.
Qed.

(* The words with at least two factors. *)
Theorem count_remainder n :
  count (fun b => (2 <= count id b)%N) (choices n) = (2 ^ n - 1 - n)%N.
Proof.
have [c0 c1] := count_choices_true n.
have : (count (fun b => count id b == 0%N) (choices n) +
  (count (fun b => count id b == 1%N) (choices n) +
   count (fun b => (2 <= count id b)%N) (choices n)) = 2 ^ n)%N.
  rewrite -(size_choices n); elim: (choices n) => //= b s <-.
  by case: (count id b) => [|[|k]] /=; rewrite ?add0n ?add1n ?addnS.
by rewrite c0 c1 => <-; rewrite addKn addKn.
Qed.

Lemma pre_word_inj n : {in choices n &, injective pre_ln_word}.
Proof.
move=> b c; rewrite !mem_choices => /eqP bn /eqP cn; rewrite /pre_ln_word bn cn => e.
apply: (@eq_from_nth _ false) => [|k]; rewrite bn ?cn // => kn.
have mem (s : seq bool) : size s = n -> (k \in mask s (iota 0 n)) = nth false s k.
  move=> sn; have ik : index k (iota 0 n) = k.
    have nk : nth 0%N (iota 0 n) k = k by rewrite nth_iota.
    by rewrite -{1}nk index_uniq ?size_iota ?iota_uniq.
  by rewrite in_mask ?iota_uniq // mem_iota kn ik.
by rewrite -mem // -[RHS]mem // e.
Qed.

(* The words of the pre-LN product: each once; a word has as many letters as factors chosen. *)
Theorem pre_words n :
  [/\ size (choices n) = (2 ^ n)%N, uniq (map pre_ln_word (choices n)) &
      forall b, size (pre_ln_word b) = count id b].
Proof.
split; first exact: size_choices.
  by rewrite map_inj_in_uniq ?uniq_choices //; apply: pre_word_inj.
by move=> b; rewrite size_mask ?size_iota.
Qed.

Section Letters.
Implicit Types (b : seq bool) (m k : nat).

Let letters b m : seq (nat + nat) :=
  flatten [seq (if c.1 then [:: inr c.2; inl c.2] else [:: inl c.2])
    | c <- zip b (iota m (size b))].

Lemma letters_ge b m k : inr k \in letters b m -> (m <= k)%N.
Proof.
elim: b m => //= x b IH m; rewrite mem_cat => /orP[|/IH]; last exact: ltnW.
by case: x; rewrite !inE; [case/orP|] => // /eqP [->].
Qed.

Lemma mem_letters b m k : (inr (m + k)%N \in letters b m) = nth false b k.
Proof.
elim: b m k => [|x b IH] m [|k] //=; rewrite mem_cat.
  rewrite addn0; have -> : (inr m \in letters b m.+1) = false.
    by apply/negP => /letters_ge; rewrite ltnn.
  by rewrite orbF; case: x; rewrite !inE ?eqxx.
rewrite addnS -addSn IH; case: x; rewrite !inE //=.
by case: eqP => // -[] /eqP; rewrite addSn -addnS -[X in _ == X]addn0 eqn_add2l.
Qed.

Lemma mem_post_word b k : (inr k \in post_ln_word b) = nth false b k.
Proof. exact: (mem_letters b 0 k). Qed.

End Letters.

(* The words of the post-LN product: 2^n different ones. *)
Theorem post_words n :
  size (choices n) = (2 ^ n)%N /\ uniq (map post_ln_word (choices n)).
Proof.
split; first exact: size_choices.
rewrite map_inj_in_uniq ?uniq_choices // => b c; rewrite !mem_choices => /eqP bn /eqP cn e.
apply: (@eq_from_nth _ false) => [|k _]; first by rewrite bn cn.
by rewrite -!mem_post_word e.
Qed.
